"""The image files of a data set, train/<class>/* and test/<class>/*, in a folder or a tar file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Self

from orat.core.errors import InputError, line_of
from orat.core.files import read_bytes

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
PARTS = ("train", "test")
BROKEN_TAR = (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, OSError)
BUFFER = 1 << 20
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class File:
    """One image file with its bytes, or a class folder, which has no name."""

    part: str
    label: str
    name: str
    raw: bytes = b""

    @property
    def path(self) -> str:
        """The path from the root of the data set."""
        return f"{self.part}/{self.label}/{self.name}"


def files(root: Path) -> Iterator[File]:
    """The image files and class folders in a folder, sorted, or in a tar file, in the order of the archive."""
    if not root.is_dir():
        yield from packed(root)
        return
    for file in listed(root):
        yield replace(file, raw=read_bytes(root / file.path)) if file.name else file


def listed(root: Path) -> Iterator[File]:
    """The image files of a folder without their bytes, and its class folders, sorted by part, class and name."""
    for part in PARTS:
        for folder in visible(root / part):
            if not folder.is_dir():
                continue
            yield File(part, folder.name, "")
            for file in visible(folder):
                if file.suffix.lower() in ENDINGS and file.is_file():
                    yield File(part, folder.name, file.name)


def visible(folder: Path) -> list[Path]:
    """The sorted content of a folder without hidden files; nothing if there is no folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def packed(archive: Path) -> Iterator[File]:
    """The image files and class folders in a tar file."""
    # tarfile's own decompression takes the end of a cut-off stream for the end of the archive.
    opened = OPENERS.get(archive.suffix, open)
    try:
        # Read as a stream: every step back in a compressed archive unpacks the archive again.
        with opened(archive, "rb") as raw, tarfile.open(fileobj=raw, mode="r|", tarinfo=Header) as tar:
            for member in tar:
                file = packed_file(tar, member)
                if file is not None:
                    yield file
            # The checksum of the compressed data is at the end of the file.
            while raw.read(BUFFER):
                pass
    except BROKEN_TAR as error:
        raise InputError(f"{archive} is no whole tar file ({line_of(error)}): pack or get it again") from error


class Header(tarfile.TarInfo):
    """A header in a tar file; a broken header is an error, not the end of the archive as in tarfile."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """The header in one block."""
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise  # an empty block ends every archive
            raise tarfile.ReadError(str(error)) from error


def packed_file(tar: tarfile.TarFile, member: tarfile.TarInfo) -> File | None:
    """An image file or a class folder in a tar file; None for everything else."""
    # Only the last parts count: an archive has train/ at its top or inside of one folder.
    parts = PurePosixPath(member.name).parts[-3:]
    if member.isdir() and len(parts) >= 2 and parts[-2] in PARTS and not parts[-1].startswith("."):
        return File(parts[-2], parts[-1], "")
    if not member.isfile() or len(parts) < 3 or parts[0] not in PARTS:
        return None
    part, label, name = parts
    if label.startswith(".") or name.startswith(".") or PurePosixPath(name).suffix.lower() not in ENDINGS:
        return None
    stream = tar.extractfile(member)
    return File(part, label, name, stream.read() if stream else b"")
