"""Files of a run: each is written under a temporary name, synced and renamed, so that it is whole; none is a pickle."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import reprlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import Optimizer

FORMAT = 1  # the number of the format that all files here share
PART = ".part"  # the suffix of files that are not whole yet
LOCK = ".lock"  # the name of the file that a process locks while it works in a folder
SEAL = "digest"  # the key of a file's own digest, which shows damage but no forgery


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary name; its file replaces ``path`` if the block succeeds, and is removed if the block fails."""
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
    """Removes the temporary files of `replacing` that a killed process left behind."""
    for path in folder.rglob(f".*{PART}"):
        path.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file, whole or not at all."""
    write_bytes(path, (json.dumps(value, indent=2) + "\n").encode())


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON object with a digest of itself."""
    plain = json.loads(json.dumps(value))  # the value as it will be read, with strings for keys
    write_json(path, {**plain, SEAL: _digest_of(plain)})


def read_json(path: Path, holding: Mapping[str, type | tuple[type, ...]] | None = None) -> dict[str, Any]:
    """Reads a JSON object that `write_json` or `write_sealed` wrote, without its digest.

    Args:
        path: The file; files of older versions have no digest.
        holding: The keys that the object must hold, with the types of their values.

    Raises:
        ValueError: The file is damaged.
    """
    with damage_told(path):
        _check_regular(path)
        value = _parse(path.read_bytes())
        if not isinstance(value, dict):
            raise TypeError(f"it holds no JSON object but {type(value).__name__}")
        stored = value.pop(SEAL, None)
        if stored is not None and stored != _digest_of(value):
            raise ValueError("its digest is of another content")
    check_held(path, value, holding or {})
    return value


def check_held(path: Path, value: Mapping[Any, Any], holding: Mapping[Any, type | tuple[type, ...]]) -> None:
    """Raises ValueError where an entry of a file is missing, or of another type."""
    with damage_told(path):
        for key, kind in holding.items():
            if not isinstance(value.get(key), kind):
                raise TypeError(f"{key!r} is {reprlib.repr(value.get(key))}")


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:  # lists that are nested too deep give a RecursionError
        raise ValueError(f"it is not JSON ({error})") from error


def _check_regular(path: Path) -> None:
    """Raises ValueError for a pipe or a folder in a file's place; reading a pipe would wait without end."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")


def _digest_of(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Turns every error in reading a file of ours into `Damaged`, but for a missing file and a lack of memory."""
    try:
        yield
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, Damaged):
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise Damaged(f"{path} is damaged: {reason}; restore it, or make it anew") from error


class Damaged(ValueError):
    """A file of ours does not hold what we wrote."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], state: Any) -> None:
    """Writes tensors, a JSON value and a digest of both to one safetensors file."""
    whole = torch.contiguous_format  # for copies: safetensors refuses tensors that share memory, as tied weights do
    plain = {name: tensor.detach().cpu().clone(memory_format=whole) for name, tensor in tensors.items()}
    content = save(plain, metadata={"format": str(FORMAT), "state": json.dumps(state)})
    end = 8 + int.from_bytes(content[:8], "little")
    header, numbers = json.loads(content[8:end]), memoryview(content)[end:]
    found = hashlib.sha256(_in_order(header))
    found.update(numbers)
    header["__metadata__"][SEAL] = found.hexdigest()
    ordered = _in_order(header)
    write_bytes(path, b"".join([len(ordered).to_bytes(8, "little"), ordered, numbers]))


def _in_order(header: Any) -> bytes:
    """The header of a safetensors file in sorted order, so that every process writes the same bytes."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)  # spaces keep the numbers aligned


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Reads the tensors and the value of `write_tensors`; ValueError where the file is damaged or of another format."""
    with damage_told(path):
        _check_regular(path)
        _check_seal(path)
        with safe_open(path, framework="pt") as stored:
            header = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
        state = json.loads(header["state"])
    if header.get("format") != str(FORMAT):
        raise ValueError(f"{path} has format {header.get('format')!r}, known is {FORMAT}: use the package that made it")
    return tensors, state


def _check_seal(path: Path) -> None:
    """Raises ValueError where a safetensors file does not fit its digest; files of older versions have no digest."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            raise ValueError("it is cut short")
        header = json.loads(file.read(size))
        stored = header.get("__metadata__", {}).pop(SEAL, None)
        if stored is None:
            return
        found = hashlib.sha256(_in_order(header))
        while part := file.read(2**20):
            found.update(part)
    if found.hexdigest() != stored:
        raise ValueError("its digest is of another content")


def write_rows(path: Path, table: pd.DataFrame) -> None:
    """Writes a table as Parquet, whole or not at all."""
    with replacing(path) as temporary:
        table.to_parquet(temporary, index=False, write_page_checksum=True)


def read_rows(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Reads a Parquet table of `write_rows`; ValueError where the file is damaged or lacks one of the columns."""
    with damage_told(path):
        _check_regular(path)
        table = pd.read_parquet(path, page_checksum_verification=True)
        if not {*columns} <= {*table.columns}:
            raise ValueError(f"it lacks some of the columns {', '.join(columns)}")
    return table


def digest(path: Path) -> str:
    """The SHA-256 digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def optimizer_tensors(optimizer: Optimizer, prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state of an optimiser: its tensors, and its numbers by parameter."""
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
    """Puts the result of `optimizer_tensors` back."""
    state: dict[int, dict[str, Any]] = {}
    found = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    for key, value in {**found, **numbers}.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def restore_network(net: nn.Module, tensors: Mapping[str, Tensor], prefix: str, source: Path) -> None:
    """Loads the weights of a network; ValueError where they do not fit."""
    own = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    try:
        net.load_state_dict(own)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise Damaged(f"{source} does not fit the network of its run ({reason})") from error


class FolderInUse(ValueError):
    """Another process writes to the folder."""


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Holds an OS lock on the folder, which ends with the process, even a killed one."""
    with open(folder / LOCK, "a", opener=_open_own) as file:
        try:
            _lock(file)
        except OSError as error:
            raise FolderInUse(f"{folder} is in use by another process: wait for it, or choose another `out`") from error
        yield


def _open_own(path: str, flags: int) -> int:
    """Opens a file without following a link or waiting for a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


def _lock(file: Any) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
