"""Downloads from a real server on this machine: good, damaged, cut off, absent and mirrored."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orat.core.errors import InputError
from orat.data import download
from orat.data.catalog import PUBLIC
from orat.data.download import Download, fetch

GOOD = bytes(range(256)) * 20


def archive(name: str, content: bytes = b"inside") -> bytes:
    """A gzipped tar file with one member."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


TAR = archive("inner/file.bin")
ESCAPING = archive("../escaped.bin")
CONTENTS = {"/good": GOOD, "/damaged": GOOD[::-1], "/cut": GOOD, "/tar": TAR, "/escaping": ESCAPING, "/notar": GOOD}


class Handler(BaseHTTPRequestHandler):
    """Serves the table above; /cut promises all bytes and sends half."""

    def do_GET(self) -> None:
        """Answers one request."""
        if self.path not in CONTENTS:
            self.send_error(404)
            return
        content = CONTENTS[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path == "/cut" else content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keeps the tests quiet."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server for the tests of this file."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def one(*urls: str, content: bytes = GOOD, unpacked: str | None = None) -> dict[str, tuple[Download, ...]]:
    """A table of one data set with one file."""
    return {"tiny": (Download("file.gz", urls, hashlib.md5(content).hexdigest(), unpacked),)}


def message(folder: Path, table: dict[str, tuple[Download, ...]]) -> str:
    """The error message of a failed download: one line with the file and the folder; no file is left behind."""
    with pytest.raises(InputError) as caught:
        fetch("tiny", folder, sources=table)
    assert "\n" not in str(caught.value)
    assert f"into {folder / 'tiny'} yourself" in str(caught.value)
    return str(caught.value)


def names(folder: Path) -> list[str]:
    """Every path below a folder, hidden ones included."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_good_file_arrives_under_its_name(tmp_path: Path, server: str) -> None:
    seen: list[tuple[str, int, int | None]] = []
    folder = fetch("tiny", tmp_path, progress=lambda *step: seen.append(step), sources=one(f"{server}/good"))
    assert folder == tmp_path / "tiny"
    assert names(folder) == ["file.gz"]
    assert (folder / "file.gz").read_bytes() == GOOD
    assert seen[-1] == ("file.gz", len(GOOD), len(GOOD))


def test_a_file_that_is_there_and_right_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "file.gz").write_bytes(GOOD)
    folder = fetch("tiny", tmp_path, sources=one("http://127.0.0.1:9/never"))  # nobody answers there
    assert names(folder) == ["file.gz"]


def test_a_damaged_file_that_is_there_is_replaced(tmp_path: Path, server: str) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "file.gz").write_bytes(b"damaged")
    fetch("tiny", tmp_path, sources=one(f"{server}/good"))
    assert (tmp_path / "tiny" / "file.gz").read_bytes() == GOOD


def test_a_wrong_checksum_is_refused(tmp_path: Path, server: str) -> None:
    line = message(tmp_path, one(f"{server}/damaged"))
    assert f"checksum {hashlib.md5(GOOD[::-1]).hexdigest()}, not {hashlib.md5(GOOD).hexdigest()}" in line
    assert "put file.gz into" in line
    assert names(tmp_path / "tiny") == []


def test_a_failed_download_leaves_the_old_file_as_it_was(tmp_path: Path, server: str) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "file.gz").write_bytes(b"of my own")
    message(tmp_path, one(f"{server}/cut"))
    assert (tmp_path / "tiny" / "file.gz").read_bytes() == b"of my own"


def test_a_cut_off_connection_leaves_nothing(tmp_path: Path, server: str) -> None:
    line = message(tmp_path, one(f"{server}/cut"))
    assert f"{server}/cut" in line
    assert str(len(GOOD) // 2) in line
    assert names(tmp_path / "tiny") == []


@pytest.mark.parametrize("first", ["absent", "damaged", "cut"])
def test_the_second_mirror_is_tried(tmp_path: Path, server: str, first: str) -> None:
    folder = fetch("tiny", tmp_path, sources=one(f"{server}/{first}", f"{server}/good"))
    assert (folder / "file.gz").read_bytes() == GOOD


def test_the_reason_of_every_mirror_is_given(tmp_path: Path, server: str) -> None:
    line = message(tmp_path, one(f"{server}/absent", f"{server}/cut"))
    assert f"{server}/absent: HTTP Error 404" in line
    assert f"{server}/cut: " in line


def test_without_a_network_the_files_to_get_are_named(tmp_path: Path) -> None:
    line = message(tmp_path, one("http://127.0.0.1:9/file.gz"))
    assert "http://127.0.0.1:9/file.gz: " in line
    assert "put file.gz into" in line


def test_an_archive_is_unpacked_and_removed(tmp_path: Path, server: str) -> None:
    table = one(f"{server}/tar", content=TAR, unpacked="inner")
    folder = fetch("tiny", tmp_path, sources=table)
    assert names(folder) == ["inner", "inner/file.bin"]
    (folder / "inner" / "file.bin").write_bytes(b"damaged")
    fetch("tiny", tmp_path, sources=table)
    assert (folder / "inner" / "file.bin").read_bytes() == b"inside"
    assert names(folder) == ["inner", "inner/file.bin"]


@pytest.mark.parametrize(
    ("path", "content", "unpacked", "words"),
    [
        ("escaping", ESCAPING, "inner", "outside"),
        ("notar", GOOD, "inner", "file.gz: "),
        ("tar", TAR, "other", "file.gz holds no folder other"),
    ],
)
def test_an_archive_that_is_not_what_it_should_be_is_refused(
    tmp_path: Path, server: str, path: str, content: bytes, unpacked: str, words: str
) -> None:
    line = message(tmp_path, one(f"{server}/{path}", content=content, unpacked=unpacked))
    assert words in line
    assert f"put {unpacked} into" in line
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, server: str) -> None:
    (tmp_path / "tiny").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"cannot write to .*tiny: File exists"):
        fetch("tiny", tmp_path, sources=one(f"{server}/good"))


def test_an_unknown_set_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown public data set 'cifar': did you mean 'cifar10"):
        fetch("cifar", tmp_path)


def test_the_table_has_every_public_set_with_secure_addresses_and_checksums() -> None:
    assert set(download.SOURCES) == set(PUBLIC)
    for source in (source for sources in download.SOURCES.values() for source in sources):
        assert len(bytes.fromhex(source.md5)) == 16
        assert source.urls
        assert all(url.startswith("https://") and url.endswith(source.file) for url in source.urls)
