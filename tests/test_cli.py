"""The command line, run as a user runs it: in a process of its own."""

import json
import subprocess
import sys

import pytest

from antidote_learn._version import __version__


def antidote(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "antidote_learn", *args], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["list", "--help"], ["list", "nothing"]])
def test_torch_is_imported_only_when_a_command_needs_it(args):
    program = (
        "import sys; from antidote_learn.cli import main\n"
        f"sys.argv = ['antidote', *{args!r}]\n"
        "main()\n"
        "heavy = {'torch', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_version():
    done = antidote("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"antidote-learn {__version__}\n", "")


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help_names_the_commands(args):
    done = antidote(*args)
    assert done.returncode == 0
    assert "list" in done.stdout
    assert not done.stderr


def test_list_divergences_as_a_table():
    done = antidote("list", "divergences")
    assert done.returncode == 0, done.stderr
    for name in ("kl", "chi2", "alpha", "js", "hellinger"):
        assert name in done.stdout


def test_list_divergences_as_json():
    rows = json.loads(antidote("list", "divergences", "--json").stdout)
    exact = {row["name"]: row["forgets_exactly"] for row in rows}
    assert exact["chi2"]
    assert not exact["kl"]
    assert not exact["js"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["list", "nothing"], "divergences"),
        (["list"], "divergences"),
        (["lsit"], "lsit"),
        (["--colour"], "--colour"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(args, says):
    done = antidote(*args)
    assert done.returncode == 2
    assert not done.stdout
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
