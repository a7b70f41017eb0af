"""Digests of data on disk, which tie decisions to the data they are about."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antidote_learn.data.builtin import DATA
from antidote_learn.data.image_folders import image_names
from antidote_learn.training.checkpoint import digest


def content_hash(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, or of the names and bytes of a folder's training images."""
    if path.is_dir():
        return folder_hash(image_hashes(path)[1])
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: give the file or folder that was audited")
    return digest(path)


def hash_if_stored(data: Any) -> str | None:
    """Returns the `content_hash` of data in a file or folder; None for built-in names and arrays."""
    if not isinstance(data, (str, Path)) or str(data) in DATA:
        return None
    return content_hash(Path(data).expanduser())


def image_hashes(folder: Path) -> tuple[Path, dict[str, str]]:
    """Returns the folder of the class folders, and the digest of each image file by name ("" if it is unreadable)."""
    root, names = image_names(folder)
    return root, {name: _bytes_hash(root / name) for name in names}


def folder_hash(hashes: Mapping[str, str]) -> str:
    """Returns one SHA-256 over names and digests, whatever their order."""
    total = hashlib.sha256()
    for name, content in sorted((os.fsencode(name), content) for name, content in hashes.items()):
        total.update(hashlib.sha256(name).digest() + content.encode() + b"\n")
    return total.hexdigest()


def _bytes_hash(path: Path) -> str:
    try:
        return digest(path) if path.is_file() else ""  # a pipe is not opened
    except OSError:
        return ""
