"""The members of tar files, read as a stream; archives that are cut off or damaged are refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Self

from orat.core.errors import InputError, line_of

BROKEN_TAR = (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, OSError)
BUFFER = 1 << 20
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def packed(archive: Path, wanted: Callable[[str], bool] | None = None) -> Iterator[tuple[str, bytes]]:
    """The visible files of a tar file, with the bytes of the wanted ones; folders have a slash at the end."""
    given = set()
    # tarfile's own decompression takes the end of a cut-off stream for the end of the archive.
    opened = OPENERS.get(archive.suffix, open)
    try:
        # Read as a stream: every step back in a compressed archive unpacks the archive again.
        with opened(archive, "rb") as raw, tarfile.open(fileobj=raw, mode="r|", tarinfo=Header) as tar:
            for member in tar:
                parts = PurePosixPath(member.name.lstrip("/")).parts
                path = "/".join(parts)
                if not path or any(part.startswith(".") for part in parts):
                    continue
                if member.isdir():
                    yield f"{path}/", b""
                elif member.isfile():
                    if path in given:
                        raise InputError(f"{archive} has two files {path}: pack it again")
                    given.add(path)
                    yield path, content(tar, member) if wanted is not None and wanted(path) else b""
            # The checksum of the compressed data is at the end of the file.
            while raw.read(BUFFER):
                pass
    except BROKEN_TAR as error:
        raise InputError(f"{archive} is no whole tar file ({line_of(error)}): pack or get it again") from error


def content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """The bytes of a file in a tar file."""
    stream = tar.extractfile(member)
    return stream.read() if stream else b""


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
