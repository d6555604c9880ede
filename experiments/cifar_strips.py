"""CIFAR-10 and CIFAR-100 for the way to another machine: lossless WebP strips of 100 images, in files below 45 MB.

    python experiments/cifar_strips.py pack cifar100 --data-dir data --to strips
    python experiments/cifar_strips.py unpack strips --to data

`pack` writes NAME-train-0.webps, NAME-train-1.webps, NAME-test-0.webps and NAME-meta.npz: labels, names of classes, and
the SHA-256 of the pixels. `unpack` checks all pixels and writes the binary version, for --data-dir. The order of the
images stays. Coarse labels of CIFAR-100 are 0.
"""

from __future__ import annotations

import argparse
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from orat.core.errors import InputError
from orat.core.files import replace_file
from orat.data.catalog import load
from orat.data.cifar import VERSIONS

SIDE, TALL = 32, 100  # pixels of an image, images of a strip
LARGEST = 44_000_000  # bytes of a file
LENGTH, HEAD = 4, 8  # of a WebP file: where its head has the length of the rest, and where the head ends

Pixels = npt.NDArray[np.uint8]  # (n, 32, 32, 3)


def main() -> None:
    """Packs or unpacks, with a line on every file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("pack")
    one.add_argument("name", choices=tuple(VERSIONS))
    one.add_argument("--data-dir", type=Path)
    one.set_defaults(run=lambda given: pack(given.name, given.data_dir, given.to))
    other = commands.add_parser("unpack")
    other.add_argument("folder", type=Path)
    other.set_defaults(run=lambda given: unpack(given.folder, given.to))
    for command in (one, other):
        command.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.run(arguments)


def pack(name: str, data_dir: Path | None, out: Path) -> None:
    """Writes the strips and the meta file of a data set."""
    splits = load(name, data_dir)
    assert splits.test is not None
    out.mkdir(parents=True, exist_ok=True)
    meta: dict[str, Any] = {"classes": np.array(splits.train.classes)}
    for part, data in (("train", splits.train), ("test", splits.test)):
        images = data.images.numpy().transpose(0, 2, 3, 1)
        meta |= {f"{part}_labels": data.labels.numpy().astype(np.uint8), f"{part}_sha256": np.array(sha256(images))}
        for number, content in enumerate(files_of(images)):
            put(out / f"{name}-{part}-{number}.webps", content)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **meta)
    put(out / f"{name}-meta.npz", buffer.getvalue())


def files_of(images: Pixels) -> Iterator[bytes]:
    """The strips of these images, joined into files."""
    content = b""
    for start in range(0, len(images), TALL):
        buffer = io.BytesIO()
        strip = Image.fromarray(np.ascontiguousarray(images[start : start + TALL]).reshape(-1, SIDE, 3))
        strip.save(buffer, format="WEBP", lossless=True, quality=75, method=4, exact=True)
        if len(content) + buffer.tell() > LARGEST:
            yield content
            content = b""
        content += buffer.getvalue()
    yield content


def unpack(folder: Path, out: Path) -> None:
    """Writes the binary version of every data set with a meta file in the folder, unless present."""
    names = [name for name in VERSIONS if (folder / f"{name}-meta.npz").is_file()]
    if not names:
        raise InputError(f"{folder} has no meta file, such as cifar10-meta.npz: bring it with the strips")
    for name in names:
        version = VERSIONS[name][0]
        place = out / name / version.folder
        if (place / version.test).is_file():  # the last file
            print(f"{place} is there")
            continue
        with np.load(folder / f"{name}-meta.npz", allow_pickle=False) as file:
            meta = dict(file)
        parts = {part: decoded(folder, name, part, meta) for part in ("train", "test")}
        place.mkdir(parents=True, exist_ok=True)
        put(place / version.names, "".join(f"{label}\n" for label in meta["classes"]).encode())
        for part, files in (("train", version.train), ("test", (version.test,))):
            records = records_of(parts[part], meta[f"{part}_labels"], version.label_bytes or 1)
            for file, some in zip(files, np.array_split(records, len(files)), strict=True):
                put(place / file, some.tobytes())


def decoded(folder: Path, name: str, part: str, meta: dict[str, npt.NDArray[Any]]) -> Pixels:
    """The images of a part, which must be as many and the same as the meta file says."""
    files = sorted(folder.glob(f"{name}-{part}-*.webps"))
    strips = [strip for file in files for strip in strips_of(file.read_bytes())]
    images = np.concatenate(strips) if strips else np.empty((0, SIDE, SIDE, 3), np.uint8)
    wanted = len(meta[f"{part}_labels"])
    if len(images) != wanted:
        names = ", ".join(file.name for file in files) or "no files"
        raise InputError(f"{len(images)} of {wanted} {part} images of {name} ({names}): bring the other files too")
    if sha256(images) != str(meta[f"{part}_sha256"]):
        raise InputError(f"the {part} images of {name} are not those of {name}-meta.npz: bring the files again")
    return images


def strips_of(content: bytes) -> Iterator[Pixels]:
    """The images of each strip in a file."""
    start = 0
    while start < len(content):
        end = start + HEAD + int.from_bytes(content[start + LENGTH : start + HEAD], "little")
        with Image.open(io.BytesIO(content[start:end]), formats=("WEBP",)) as strip:
            yield np.asarray(strip.convert("RGB")).reshape(-1, SIDE, SIDE, 3)
        start = end


def records_of(images: Pixels, labels: npt.NDArray[np.uint8], label_bytes: int) -> Pixels:
    """The labels and the three planes of every image, in the order of the binary version."""
    records = np.zeros((len(images), label_bytes + 3 * SIDE * SIDE), np.uint8)
    records[:, label_bytes - 1] = labels
    records[:, label_bytes:] = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return records


def sha256(images: Pixels) -> str:
    """The SHA-256 of all pixels, row by row."""
    return hashlib.sha256(np.ascontiguousarray(images).tobytes()).hexdigest()


def put(file: Path, content: bytes) -> None:
    """Writes a file, with a line on its size."""
    replace_file(file, content)
    print(f"{file}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
