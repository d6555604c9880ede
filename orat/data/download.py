"""Where the public data sets come from, and how they arrive whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orat.core.errors import InputError, unknown

CHUNK = 1 << 20
TIMEOUT_SECONDS = 30.0
FAILED_REQUEST = (OSError, http.client.HTTPException, ValueError)
FAILED_UNPACKING = (tarfile.TarError, EOFError, zlib.error, OSError)

Progress = Callable[[str, int, int | None], None]  # the file, bytes so far, bytes in all where the server says so


@dataclass(frozen=True)
class Source:
    """One file to download; an archive also names the one folder that it unpacks to."""

    file: str
    urls: tuple[str, ...]
    md5: str
    unpacked: str | None = None


def _mnist(file: str, md5: str) -> Source:
    mirrors = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
    return Source(file, tuple(mirror + file for mirror in mirrors), md5)


def _cifar(file: str, md5: str, unpacked: str) -> Source:
    return Source(file, (f"https://www.cs.toronto.edu/~kriz/{file}",), md5, unpacked)


SOURCES: Mapping[str, tuple[Source, ...]] = {
    "mnist": (
        _mnist("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        _mnist("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        _mnist("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        _mnist("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
    "cifar10": (_cifar("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"),),
    "cifar100": (_cifar("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"),),
}


def fetch(
    name: str,
    data_dir: Path,
    progress: Progress | None = None,
    sources: Mapping[str, tuple[Source, ...]] = SOURCES,
) -> Path:
    """Downloads a public set into data_dir/name and returns that folder; files that are there and right are kept."""
    if name not in sources:
        raise unknown("public data set", name, sources)
    folder = data_dir / name
    made = [place for place in (folder, data_dir) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources[name]:
            _place(source, folder, progress or _silent)
    except _DownloadError as failure:
        for place in made:
            with suppress(OSError):
                place.rmdir()  # which refuses to if a file did arrive
        wanted = ", ".join(source.unpacked or source.file for source in sources[name])
        raise InputError(f"could not download {name} ({failure}): put {wanted} into {folder} yourself") from failure
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from error
    return folder


class _DownloadError(Exception):
    """Why a source could not be had."""


def _silent(file: str, done: int, total: int | None) -> None:
    """Reports nothing."""


def _place(source: Source, folder: Path, progress: Progress) -> None:
    target = folder / source.file
    if source.unpacked is None and target.is_file() and _md5(target) == source.md5:
        return
    # Beside the target, so that the last step is a rename: a name in the folder is always a whole file.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as beside:
        arrived = Path(beside) / source.file
        _try_mirrors(source, arrived, progress)
        if source.unpacked is None:
            arrived.replace(target)
        else:
            _unpack(arrived, source.unpacked, folder)


def _try_mirrors(source: Source, arrived: Path, progress: Progress) -> None:
    reasons = []
    for url in source.urls:
        try:
            return _download(url, source, arrived, progress)
        except _DownloadError as failure:
            reasons.append(str(failure))
    raise _DownloadError("; ".join(reasons))


def _download(url: str, source: Source, arrived: Path, progress: Progress) -> None:
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response, arrived.open("wb") as out:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            while chunk := response.read(CHUNK):
                done += out.write(chunk)
                progress(source.file, done, total)
    except FAILED_REQUEST as error:
        raise _DownloadError(f"{url}: {_line(error)}") from error
    if total is not None and done != total:
        raise _DownloadError(f"{url}: cut off after {done} of {total} bytes")
    found = _md5(arrived)
    if found != source.md5:
        raise _DownloadError(f"{url}: checksum {found}, not {source.md5}")


def _unpack(archive: Path, unpacked: str, folder: Path) -> None:
    place = archive.parent / "unpacked"
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter="data")
    except FAILED_UNPACKING as error:
        raise _DownloadError(f"{archive.name}: {_line(error)}") from error
    if not (place / unpacked).is_dir():
        raise _DownloadError(f"{archive.name} holds no folder {unpacked}")
    # A folder cannot be replaced in one step: the old one moves away first and goes with the temporary folder.
    if (folder / unpacked).exists():
        (folder / unpacked).replace(archive.parent / "old")
    (place / unpacked).replace(folder / unpacked)


def _md5(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
