"""Files of a run that survive anything: written beside their name, synced, and renamed; never pickle."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer

FORMAT = 1  # of every file here
PART = ".part"  # how names of files end that are not whole yet


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` that takes its place when the block ends well, and vanishes when it does not."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{PART}")
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, f"cannot write: {error.strerror or error}", str(path)) from error
        raise


def remove_parts(folder: Path) -> None:
    """Removes what `replacing` leaves behind where its process is killed."""
    for path in folder.rglob(f".*{PART}"):
        path.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """A file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """A JSON file, whole or not at all."""
    write_bytes(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """A JSON file; ValueError where it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: it is not JSON ({error}); restore it, or train anew") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], state: Any) -> None:
    """Tensors with a JSON value beside them in one safetensors file."""
    whole = torch.contiguous_format  # a copy each: safetensors refuses tensors that share memory, as tied weights do
    plain = {name: tensor.detach().cpu().clone(memory_format=whole) for name, tensor in tensors.items()}
    write_bytes(path, _in_order(save(plain, metadata={"format": str(FORMAT), "state": json.dumps(state)})))


def _in_order(content: bytes) -> bytes:
    """The same safetensors file with a sorted header, whose order would differ from one process to the next."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # numbers stay aligned
    return b"".join([len(header).to_bytes(8, "little"), header, content[end:]])


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """What `write_tensors` wrote; ValueError where the file is damaged or of another format."""
    try:
        with safe_open(path, framework="pt") as stored:
            header = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
        state = json.loads(header["state"])
    except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path} is damaged ({error}); restore it, or train anew") from error
    if header.get("format") != str(FORMAT):
        raise ValueError(f"{path} has format {header.get('format')!r}, known is {FORMAT}: use the package that made it")
    return tensors, state


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def optimizer_tensors(optimizer: Optimizer, prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as tensors, and its numbers by parameter."""
    tensors, numbers = {}, {}
    for number, entry in optimizer.state_dict()["state"].items():
        for name, value in entry.items():
            if isinstance(value, Tensor):
                tensors[f"{prefix}{number}.{name}"] = value
            elif value is not None:
                numbers[f"{number}.{name}"] = value
    return tensors, numbers


def restore_optimizer(
    optimizer: Optimizer, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any], prefix: str
) -> None:
    """Puts `optimizer_tensors` back."""
    state: dict[int, dict[str, Any]] = {}
    found = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    for key, value in {**found, **numbers}.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def restore_network(net: nn.Module, tensors: Mapping[str, Tensor], prefix: str, source: Path) -> None:
    """Loads a network's weights; ValueError where they do not fit."""
    own = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    try:
        net.load_state_dict(own)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"{source} does not fit the network of its run ({reason})") from error


class FolderInUse(ValueError):
    """Another process writes to the folder."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """An OS lock on the folder, which a killed process does not leave behind."""
    with open(folder / ".lock", "a") as file:
        try:
            _lock(file)
        except OSError as error:
            raise FolderInUse(f"{folder} is in use by another process: wait for it, or choose another --out") from error
        yield


def _lock(file: Any) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
