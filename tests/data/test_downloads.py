"""Downloads from a server on this machine that also answers wrongly, too little, or not at all."""

import hashlib
import io
import os
import stat
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from antidote_learn.data.downloads import extract, fetch

CONTENT = np.random.default_rng(0).bytes(700_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/good")
            self.end_headers()
        elif self.path == "/missing":
            self.send_error(404)
        else:
            self.send_response(200)
            if self.path != "/unsized":
                self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:300_000] if self.path == "/dropped" else CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def files_in(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("page", ["good", "moved", "unsized"])
def test_a_good_file_arrives_whole_with_progress(server, tmp_path, page):
    calls = []
    target = tmp_path / "new" / "folder" / "file.bin"
    fetch(f"{server}/{page}", target, sha256=SHA256, progress=lambda done, total: calls.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert files_in(tmp_path) == ["file.bin"]
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert calls[-1][0] == len(CONTENT)
    assert len(calls) > 1
    assert {total for _, total in calls} == {None if page == "unsized" else len(CONTENT)}


def test_others_may_read_what_arrived_as_any_new_file(server, tmp_path):
    (tmp_path / "plain").touch()
    fetch(f"{server}/good", tmp_path / "file.bin", sha256=SHA256)
    assert stat.S_IMODE(os.stat(tmp_path / "file.bin").st_mode) == stat.S_IMODE(os.stat(tmp_path / "plain").st_mode)


def test_a_wrong_digest_keeps_nothing(server, tmp_path):
    with pytest.raises(ValueError, match=rf"SHA-256 {SHA256} of 700000 bytes, required {'0' * 64}"):
        fetch(f"{server}/good", tmp_path / "file.bin", sha256="0" * 64)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    ("page", "message"),
    [("missing", "404"), ("dropped", "the connection ended after 300000 of 700000 bytes")],
)
def test_a_failed_download_keeps_nothing_and_says_why(server, tmp_path, page, message):
    with pytest.raises(FileNotFoundError, match=message) as caught:
        fetch(f"{server}/{page}", tmp_path / "file.bin", sha256=SHA256)
    assert files_in(tmp_path) == []
    assert f"{server}/{page}" in str(caught.value)
    assert str(tmp_path / "file.bin") in str(caught.value)


def test_a_server_that_is_not_there(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as unused:
        port = unused.server_port
    with pytest.raises(FileNotFoundError, match=r"could not be fetched .*refused"):
        fetch(f"http://127.0.0.1:{port}/good", tmp_path / "file.bin", sha256=SHA256)


def test_a_failed_download_leaves_the_old_file_alone(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        fetch(f"{server}/dropped", tmp_path / "file.bin", sha256=SHA256)
    assert (tmp_path / "file.bin").read_bytes() == b"old"
    assert files_in(tmp_path) == ["file.bin"]


def test_the_final_name_appears_only_at_the_end_and_an_interrupt_keeps_nothing(server, tmp_path):
    def interrupt(done: int, total: int | None) -> None:
        assert len(files_in(tmp_path)) == 1
        assert not (tmp_path / "file.bin").exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(f"{server}/good", tmp_path / "file.bin", sha256=SHA256, progress=interrupt)
    assert files_in(tmp_path) == []


# --- archives --------------------------------------------------------------------------------------------------------


def archive(path, entries) -> None:
    """A .tar.gz of (name, content) files and (name, -> target) links."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
            else:
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)


def test_only_the_named_members_are_unpacked(tmp_path):
    root = tmp_path / "root"
    archive(
        tmp_path / "a.tar.gz",
        [
            ("../outside", b"evil"),
            ("/tmp/../outside2", b"evil"),
            ("data/link", "../../outside"),
            ("data/a.bin", b"first"),
            ("data/readme.html", b"not wanted"),
            ("data/b.bin", b"second"),
            ("data/a.bin", b"a second one of the same name"),
        ],
    )
    extract(tmp_path / "a.tar.gz", root, members=["data/a.bin", "data/b.bin"])
    assert files_in(root) == ["a.bin", "b.bin"]
    assert (root / "data" / "a.bin").read_bytes() == b"first"
    assert files_in(tmp_path) == ["a.bin", "a.tar.gz", "b.bin"]


def test_a_link_is_not_the_file_it_stands_for(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    archive(tmp_path / "a.tar.gz", [("data/real", b"x"), ("data/a.bin", "real"), ("data/b.bin", "../../secret")])
    with pytest.raises(ValueError, match=r"does not hold \['data/a.bin', 'data/b.bin'\] as plain files"):
        extract(tmp_path / "a.tar.gz", tmp_path / "root", members=["data/a.bin", "data/b.bin"])
    assert not (tmp_path / "root").exists()


def test_a_folder_that_the_archive_makes_a_link_is_a_folder(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    archive(tmp_path / "a.tar.gz", [("data", str(tmp_path / "elsewhere")), ("data/a.bin", b"x")])
    extract(tmp_path / "a.tar.gz", tmp_path / "root", members=["data/a.bin"])
    assert files_in(tmp_path / "elsewhere") == []
    assert (tmp_path / "root" / "data" / "a.bin").read_bytes() == b"x"


@pytest.mark.parametrize("keep", [0, 5, 300_000])
def test_a_truncated_archive_keeps_nothing_of_the_broken_member(tmp_path, keep):
    archive(tmp_path / "a.tar.gz", [("data/a.bin", CONTENT)])
    (tmp_path / "b.tar.gz").write_bytes((tmp_path / "a.tar.gz").read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"b\.tar\.gz is truncated or damaged .*fetch it again"):
        extract(tmp_path / "b.tar.gz", tmp_path / "root", members=["data/a.bin"])
    assert files_in(tmp_path) == ["a.tar.gz", "b.tar.gz"]


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"<html>not here</html>")
    with pytest.raises(ValueError, match="truncated or damaged"):
        extract(tmp_path / "a.tar.gz", tmp_path / "root", members=["data/a.bin"])
