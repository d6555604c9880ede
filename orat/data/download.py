"""Downloads of the public data sets; a file is placed whole or not at all."""

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

from orat.core.errors import InputError, line_of, unknown

CHUNK = 1 << 20
TIMEOUT_SECONDS = 30.0
FAILED_REQUEST = (OSError, http.client.HTTPException, ValueError)
FAILED_UNPACKING = (tarfile.TarError, EOFError, zlib.error, OSError)

Progress = Callable[[str, int, int | None], None]  # the file, bytes so far, total bytes if the server states them


@dataclass(frozen=True)
class Download:
    """One file to download, and for an archive the name of its folder."""

    file: str
    urls: tuple[str, ...]
    md5: str
    unpacked: str | None = None


def mnist(file: str, checksum: str) -> Download:
    """A file of MNIST."""
    mirrors = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
    return Download(file, tuple(mirror + file for mirror in mirrors), checksum)


def cifar(file: str, checksum: str, unpacked: str) -> Download:
    """An archive of CIFAR."""
    return Download(file, (f"https://www.cs.toronto.edu/~kriz/{file}",), checksum, unpacked)


SOURCES: Mapping[str, tuple[Download, ...]] = {
    "mnist": (
        mnist("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        mnist("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        mnist("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        mnist("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
    "cifar10": (cifar("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"),),
    "cifar100": (cifar("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"),),
}


def fetch(
    name: str,
    data_dir: Path,
    progress: Progress | None = None,
    sources: Mapping[str, tuple[Download, ...]] = SOURCES,
) -> Path:
    """Downloads a public data set into data_dir/name and returns this folder; correct files are not loaded again."""
    if name not in sources:
        raise unknown("public data set", name, sources)
    folder = data_dir / name
    made = [place for place in (folder, data_dir) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources[name]:
            install(source, folder, progress or silent)
    except DownloadError as failure:
        for place in made:
            with suppress(OSError):
                place.rmdir()  # fails if the folder has a file
        wanted = ", ".join(source.unpacked or source.file for source in sources[name])
        raise InputError(f"could not download {name} ({failure}): put {wanted} into {folder} yourself") from failure
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from error
    return folder


class DownloadError(Exception):
    """The reason of a failed download."""


def silent(file: str, done: int, total: int | None) -> None:
    """Reports no progress."""


def install(source: Download, folder: Path, progress: Progress) -> None:
    """Puts one file, or the folder of an archive, into a folder."""
    target = folder / source.file
    if source.unpacked is None and target.is_file() and md5(target) == source.md5:
        return
    # The temporary folder is on the same disk, so that the last step is a rename.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as beside:
        arrived = Path(beside) / source.file
        try_mirrors(source, arrived, progress)
        if source.unpacked is None:
            arrived.replace(target)
        else:
            unpack(arrived, source.unpacked, folder)


def try_mirrors(source: Download, arrived: Path, progress: Progress) -> None:
    """Downloads a file from the first of its addresses that works."""
    reasons = []
    for url in source.urls:
        try:
            return download(url, source, arrived, progress)
        except DownloadError as failure:
            reasons.append(str(failure))
    raise DownloadError("; ".join(reasons))


def download(url: str, source: Download, arrived: Path, progress: Progress) -> None:
    """Downloads a file from one address, and checks its length and checksum."""
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response, arrived.open("wb") as out:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            while chunk := response.read(CHUNK):
                done += out.write(chunk)
                progress(source.file, done, total)
    except FAILED_REQUEST as error:
        raise DownloadError(f"{url}: {line_of(error)}") from error
    if total is not None and done != total:
        raise DownloadError(f"{url}: cut off after {done} of {total} bytes")
    found = md5(arrived)
    if found != source.md5:
        raise DownloadError(f"{url}: checksum {found}, not {source.md5}")


def unpack(archive: Path, unpacked: str, folder: Path) -> None:
    """Unpacks an archive and moves its folder into another folder."""
    place = archive.parent / "unpacked"
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter="data")
    except FAILED_UNPACKING as error:
        raise DownloadError(f"{archive.name}: {line_of(error)}") from error
    if not (place / unpacked).is_dir():
        raise DownloadError(f"{archive.name} holds no folder {unpacked}")
    # A folder cannot be replaced in one step: the old folder moves into the temporary folder first.
    if (folder / unpacked).exists():
        (folder / unpacked).replace(archive.parent / "old")
    (place / unpacked).replace(folder / unpacked)


def md5(file: Path) -> str:
    """The checksum of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
