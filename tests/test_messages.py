"""What the library says names arguments of Python; the command line says the same with its flags."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from antidote_learn.cli import app
from antidote_learn.cli.flags import ARGUMENT, with_flags
from tests import commands

SOURCE = Path(__file__).parents[1] / "src" / "antidote_learn"
LIBRARY = [path for path in sorted(SOURCE.rglob("*.py")) if "cli" not in path.relative_to(SOURCE).parts]
FLAG = re.compile(r"(?:^|[\s(`])--[a-z]|\s--$")  # the latter as in f"takes no --{name}"


def strings(tree: ast.Module) -> list[str]:
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def messages(tree: ast.Module) -> Iterator[str]:
    """The texts of errors and notes with {} for what is put in, and adjacent parts as one."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for text in (argument for call in calls for argument in call.args):
        if isinstance(text, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in text.values)
        elif isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield text.value


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_library_names_no_flag(path):
    found = [text for text in strings(ast.parse(path.read_text(encoding="utf-8"))) if FLAG.search(text)]
    assert not found, "a Python caller has no flags: write the argument in backticks, `out` or `resume=True`"


def test_every_argument_in_a_message_is_an_option_of_a_command():
    options = {name for one in app.registered_commands for name in inspect.signature(one.callback).parameters}
    named = [name for path in LIBRARY for text in messages(ast.parse(path.read_text(encoding="utf-8")))
             for name, _ in ARGUMENT.findall(text)]  # fmt: skip
    assert {"out", "resume", "lr"} <= set(named) <= options


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "runs/x holds a run: use `resume=True`, or another `out`",
            "runs/x holds a run: use --resume, or another --out",
        ),
        ("a rate (`noise_rate`) is missing.", "a rate (--noise-rate) is missing."),
        ("`image=path to file` and `text=body`: give one", "--image path to file and --text body: give one"),
        ("column '`text`' is twice: rename one", "column '`text`' is twice: rename one"),
        ("/data/`out`/a.csv is a file: choose another `out`", "/data/`out`/a.csv is a file: choose another --out"),
        ("see `antidote list data`", "see `antidote list data`"),
    ],
)
def test_arguments_become_flags_and_names_of_the_user_stay(text, says):
    assert with_flags(text) == says


def test_errors_of_the_command_line_name_its_flags(tmp_path):
    refused = commands.antidote("train", "iris", "--image", "path", cwd=tmp_path)
    assert refused.complaint == "antidote: 'iris' takes no --image: that is for tables in files"
    missing = commands.antidote("train", "cifar10", "--data-root", tmp_path, cwd=tmp_path)
    assert "name another folder with --data-root or ANTIDOTE_DATA, or fetch it with --download" in missing.complaint
