"""Files of a run: whole or not at all, the state of optimisers there and back, damage, and the lock."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import nn
from torch.optim import SGD, AdamW

from antidote_learn.training.checkpoint import (
    FORMAT,
    FolderInUse,
    digest,
    lock_folder,
    optimizer_tensors,
    read_json,
    read_rows,
    read_tensors,
    replacing,
    restore_network,
    restore_optimizer,
    write_bytes,
    write_json,
    write_sealed,
    write_tensors,
)
from antidote_learn.training.runs import train

# --- whole or not at all ---------------------------------------------------------------------------------------------


def test_a_file_takes_the_place_of_another_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        write_bytes(path, content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [ValueError("no"), OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), SystemExit(1)])
def test_a_failure_in_the_middle_leaves_the_old_file_and_nothing_beside_it(tmp_path, error):
    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_bytes(b"half of the n")
            raise error

    path = tmp_path / "file"
    write_bytes(path, b"old")
    with pytest.raises(type(error)):
        write_half()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_of_the_last_steps_leaves_the_old_file(tmp_path, monkeypatch, call):
    def fail(*_):
        raise OSError(errno.EIO, "broken")

    path = tmp_path / "file"
    write_json(path, {"old": 1})
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="broken"):
        write_json(path, {"new": 2})
    assert read_json(path) == {"old": 1}
    assert os.listdir(tmp_path) == ["file"]


def test_the_content_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done, sync, rename = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("synced"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("renamed"), rename(*names)))
    write_bytes(tmp_path / "file", b"content")
    assert done == ["synced", "renamed"]


def test_a_process_killed_while_it_writes_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from antidote_learn.training.checkpoint import replacing\n"
        "with replacing(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_bytes(b'half of the n')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)]).returncode == -9
    assert path.read_bytes() == b"old"
    assert [name for name in os.listdir(tmp_path) if name != "file" and not name.endswith(".part")] == []


# --- JSON and tensors ------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None)
@given(value=VALUES)
def test_values_come_back_as_they_were(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("values")
    for write in (write_json, write_sealed):
        write(folder / "value.json", {"value": value})
        assert read_json(folder / "value.json") == {"value": value}
    write_tensors(folder / "value.safetensors", {}, value)
    assert read_tensors(folder / "value.safetensors") == ({}, value)


def test_tensors_of_every_kind_come_back_bit_for_bit(tmp_path):
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(4, 6, generator=generator)
    tensors = {
        "plain": base,
        "transposed": base.T,
        "strided": base[:, ::2],
        "channels_last": torch.randn(2, 3, 4, 4, generator=generator).to(memory_format=torch.channels_last),
        "scalar": torch.tensor(3.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "whole": torch.arange(5),
        "half": base.bfloat16(),
        "mask": base > 0,
        "special": torch.tensor([float("nan"), float("inf"), -0.0]),
        "with gradient": nn.Parameter(base.clone()),
    }
    write_tensors(tmp_path / "file", tensors, None)
    found, _ = read_tensors(tmp_path / "file")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert not found[name].requires_grad
        torch.testing.assert_close(found[name], tensor.detach(), rtol=0, atol=0, equal_nan=True)


def test_tied_weights_are_saved_and_come_back(tmp_path):
    def tied() -> nn.Sequential:
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        net[1].weight = net[0].weight
        return net

    net, other = tied(), tied()
    write_tensors(tmp_path / "file", net.state_dict(), None)
    restore_network(other, read_tensors(tmp_path / "file")[0], "", tmp_path / "file")
    x = torch.ones(2, 3)
    assert torch.equal(net(x), other(x))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"{'a': 1}", b"[" * 100_000, b"1" * 5000])
def test_damaged_json_is_named(tmp_path, content):
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"value\.json is damaged: it is not JSON"):
        read_json(path)


def test_any_changed_byte_of_a_sealed_file_is_told(tmp_path):
    """But for white space between values and the digest's own name, which change nothing of the content."""
    path, value = tmp_path / "value.json", {"rate": 0.25, "names": ["a", "b"], "deep": {"1": None}}
    write_sealed(path, value)
    content = path.read_bytes()
    name = content.index(b"digest")
    for place in {*range(len(content))} - {*range(name, name + len("digest"))}:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        if not content[place : place + 1].isspace():
            with pytest.raises(ValueError, match=r"value\.json is damaged"):
                read_json(path)


@pytest.mark.parametrize("holding", [{"rate": str}, {"none": int}, {"rate": (int, str)}])
def test_a_value_of_another_type_is_damage(tmp_path, holding):
    write_json(tmp_path / "value.json", {"rate": 0.5})
    with pytest.raises(ValueError, match=f"damaged: '{next(iter(holding))}' is"):
        read_json(tmp_path / "value.json", holding)


def test_any_changed_bit_of_a_tensor_file_is_told(tmp_path):
    path = tmp_path / "state.safetensors"
    write_tensors(path, {"a": torch.arange(3.0), "b": torch.ones(2, dtype=torch.int64)}, {"epoch": 3})
    content = path.read_bytes()
    name = content.index(b"digest")
    for place in {*range(len(content))} - {*range(name, name + len("digest"))}:
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"state\.safetensors (is damaged|has format)"):
            read_tensors(path)


def test_files_of_before_there_were_digests_are_read(tmp_path):
    (tmp_path / "value.json").write_text('{"rate": 0.5}')
    assert read_json(tmp_path / "value.json") == {"rate": 0.5}
    (tmp_path / "old").write_bytes(save({"a": torch.ones(2)}, {"format": str(FORMAT), "state": "[1]"}))
    tensors, state = read_tensors(tmp_path / "old")
    assert tensors["a"].tolist() == [1, 1]
    assert state == [1]


@pytest.mark.parametrize("read", [lambda path, _: read_json(path), lambda path, _: read_tensors(path), read_rows])
def test_a_pipe_in_a_file_s_place_is_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "file")
    with pytest.raises(ValueError, match="no regular file"):
        read(tmp_path / "file", ())


def test_the_lock_is_not_taken_through_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"\.lock"), lock_folder(tmp_path / "folder"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_cut_or_foreign_tensor_file_is_named(tmp_path):
    path = tmp_path / "state.safetensors"
    write_tensors(path, {"a": torch.arange(10.0)}, {"epoch": 3})
    content = path.read_bytes()
    damaged = [content[:size] for size in (0, 4, 8, len(content) // 2, len(content) - 1)]
    damaged += [b"\xff" * 200, content + b"x", save({"a": torch.ones(2)}), save({}, {"format": "1", "state": "{"})]
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"state\.safetensors is damaged") as caught:
            read_tensors(path)
        assert "\n" not in str(caught.value)


def test_a_file_of_a_later_format_asks_for_its_package(tmp_path):
    (tmp_path / "file").write_bytes(save({}, {"format": str(FORMAT + 1), "state": "{}"}))
    with pytest.raises(ValueError, match=f"has format '{FORMAT + 1}', known is {FORMAT}: use the package that made it"):
        read_tensors(tmp_path / "file")


def test_all_that_a_run_writes_is_strict_json_though_its_temperature_is_infinite(tmp_path):
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    train("iris", noise_rate=0.0, epochs=1, out=tmp_path)
    texts = [path.read_text() for path in tmp_path.rglob("*.json")]
    texts += (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert len(texts) == 4
    for text in texts:
        json.loads(text, parse_constant=refuse)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_tensors(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")


def test_the_digest_is_the_one_of_the_command(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert digest(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


# --- networks and optimisers -----------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda parameters: SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "sgd, no momentum": lambda parameters: SGD(parameters, lr=0.1),
    "sgd, fused": lambda parameters: SGD(parameters, lr=0.1, momentum=0.9, fused=True),
    "adamw": lambda parameters: AdamW(parameters, lr=0.01, weight_decay=0.1),
    "adamw, fused": lambda parameters: AdamW(parameters, lr=0.01, fused=True),
    "adamw, amsgrad": lambda parameters: AdamW(parameters, lr=0.01, amsgrad=True),
}
GENERATOR = torch.Generator().manual_seed(0)
BATCHES = [(torch.randn(16, 5, generator=GENERATOR), torch.randint(3, (16,), generator=GENERATOR)) for _ in range(5)]


def fresh(seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def take_steps(net, optimizer, batches) -> None:
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_saved_after_two_steps_and_continued_is_uninterrupted(tmp_path, name):
    whole, stopped, resumed = fresh(0), fresh(0), fresh(1)
    take_steps(whole, OPTIMIZERS[name](whole.parameters()), BATCHES)
    optimizer = OPTIMIZERS[name](stopped.parameters())
    take_steps(stopped, optimizer, BATCHES[:2])
    tensors, numbers = optimizer_tensors(optimizer, "optimizer.")
    write_tensors(tmp_path / "file", tensors | {f"net.{k}": v for k, v in stopped.state_dict().items()}, numbers)

    tensors, numbers = read_tensors(tmp_path / "file")
    restore_network(resumed, tensors, "net.", tmp_path / "file")
    optimizer = OPTIMIZERS[name](resumed.parameters())
    restore_optimizer(optimizer, tensors, numbers, "optimizer.")
    take_steps(resumed, optimizer, BATCHES[2:])
    for key, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value), key


def test_an_optimiser_that_has_not_stepped_has_nothing_to_save():
    net = fresh(0)
    optimizer = OPTIMIZERS["adamw"](net.parameters())
    assert optimizer_tensors(optimizer, "a.") == ({}, {})
    restore_optimizer(optimizer, {}, {}, "a.")
    take_steps(net, optimizer, BATCHES[:1])


def test_optimisers_are_told_apart_by_their_prefix():
    nets = [fresh(0), fresh(1)]
    optimizers = [OPTIMIZERS["sgd"](net.parameters()) for net in nets]
    tensors = {}
    for number, (net, optimizer) in enumerate(zip(nets, optimizers, strict=True)):
        take_steps(net, optimizer, BATCHES)
        tensors |= optimizer_tensors(optimizer, f"{number}.optimizer.")[0]
    for number, (net, optimizer) in enumerate(zip(nets, optimizers, strict=True)):
        copy = OPTIMIZERS["sgd"](net.parameters())
        restore_optimizer(copy, tensors, {}, f"{number}.optimizer.")
        found, expected = optimizer_tensors(copy, "")[0], optimizer_tensors(optimizer, "")[0]
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_the_learning_rate_is_the_new_optimisers_own():
    net = fresh(0)
    old, new = SGD(net.parameters(), lr=0.1, momentum=0.9), SGD(net.parameters(), lr=0.7, momentum=0.9)
    take_steps(net, old, BATCHES)
    restore_optimizer(new, *optimizer_tensors(old, ""), "")
    assert new.param_groups[0]["lr"] == 0.7


@pytest.mark.parametrize("change", ["shape", "missing", "unexpected"])
def test_weights_that_do_not_fit_are_refused_in_one_line(tmp_path, change):
    state = dict(fresh(0).state_dict())
    if change == "shape":
        state["0.weight"] = torch.zeros(2, 2)
    elif change == "missing":
        del state["0.weight"]
    else:
        state["9.weight"] = torch.zeros(2)
    with pytest.raises(ValueError, match=r"last\.safetensors does not fit the network of its run .*weight") as caught:
        restore_network(fresh(1), state, "", Path("last.safetensors"))
    assert "\n" not in str(caught.value)


# --- the lock --------------------------------------------------------------------------------------------------------

HOLDER = (
    "import sys, time; from pathlib import Path\n"
    "from antidote_learn.training.checkpoint import lock_folder\n"
    "with lock_folder(Path(sys.argv[1])):\n"
    "    print('locked', flush=True)\n"
    "    time.sleep(60)\n"
)


def test_a_second_process_is_refused_until_the_first_is_gone_even_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout.readline() == "locked\n"
            with pytest.raises(FolderInUse, match="is in use by another process: wait for it"), lock_folder(tmp_path):
                pass
        finally:
            first.kill()
    with lock_folder(tmp_path):
        pass


def test_the_lock_is_let_go_after_an_error_and_taken_again(tmp_path):
    with pytest.raises(KeyError), lock_folder(tmp_path):
        raise KeyError
    with lock_folder(tmp_path), pytest.raises(FolderInUse), lock_folder(tmp_path):
        pass
    with lock_folder(tmp_path):
        pass


def test_other_folders_are_not_locked(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with lock_folder(tmp_path / "a"), lock_folder(tmp_path / "b"):
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]
