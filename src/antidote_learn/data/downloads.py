"""Files from the network, which are whole and have the right digest, or are not there at all."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.request import urlopen

CHUNK = 1 << 18  # bytes read at a time, few enough for progress to move
TIMEOUT_SECONDS = 30.0  # the longest silence of a server; the whole download may take longer

Progress = Callable[[int, int | None], None]
"""A function of (bytes done, bytes in all or None where the server does not say)."""


def fetch(url: str, target: Path, *, sha256: str, progress: Progress | None = None) -> None:
    """Download ``url`` to ``target``, which appears only when it is complete and its digest is right.

    Args:
        url: An http or https address.
        target: The file to write; its folder is made. Until the end the bytes lie beside it in another file, which is
            removed whatever happens, Ctrl-C included.
        sha256: The digest that the downloaded bytes must have, in hexadecimal.
        progress: Called after every chunk.

    Raises:
        FileNotFoundError: The server does not have it, cannot be reached, or stopped in the middle.
        ValueError: The digest is another.
    """
    found, done = hashlib.sha256(), 0
    with _open_until_whole(target) as file:
        for chunk, total in _chunks(url, target):
            file.write(chunk)
            found.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
        if found.hexdigest() != sha256:
            raise ValueError(
                f"{url} has another content than expected: SHA-256 {found.hexdigest()} of {done} bytes, required"
                f" {sha256}; nothing was kept, try again or put the file at {target} yourself"
            )


def extract(archive: Path, root: Path, *, members: Collection[str]) -> None:
    """Unpack the named files of a ``.tar.gz`` to ``root / member``, and nothing else.

    Links and folders in the archive are never made, and no path in it is followed.

    Raises:
        ValueError: The archive is damaged, or a member is not in it as a regular file.
    """
    missing = set(members)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for entry in tar:
                if entry.name in missing and entry.isfile() and (content := tar.extractfile(entry)) is not None:
                    with _open_until_whole(root / entry.name) as file:
                        shutil.copyfileobj(content, file)
                    missing.remove(entry.name)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{archive} is truncated or damaged ({error}); fetch it again") from error
    if missing:
        raise ValueError(f"{archive} does not hold {sorted(missing)} as plain files; fetch the official archive")


def _chunks(url: str, target: Path) -> Iterator[tuple[bytes, int | None]]:
    """Yield (bytes, bytes in all) of a response; a failure of the network is a FileNotFoundError."""
    try:
        with urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            total, done = response.length, 0
            while chunk := response.read(CHUNK):
                done += len(chunk)
                yield chunk, total
            if total is not None and done < total:
                raise ConnectionError(f"the connection ended after {done} of {total} bytes")
    except (OSError, HTTPException) as error:
        raise FileNotFoundError(
            f"{url} could not be fetched ({error}); nothing was kept, try again or put the file at {target} yourself"
        ) from error


@contextmanager
def _open_until_whole(target: Path) -> Iterator[BinaryIO]:
    """Open a file to write, which is named ``target`` when all went well and is removed otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
