"""`orat data`: the data sets by name, or what one data set holds, with a contact sheet of its images."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from orat.cli.flags import add_command, read
from orat.cli.tables import plain_table, print_json, print_table, say
from orat.core.console import Display
from orat.core.domain import size
from orat.core.errors import InputError, unknown
from orat.core.options import flag, whole
from orat.core.registry import plugins

if TYPE_CHECKING:
    from orat.data.inspection import Inspection

OURS = b'<meta name="generator" content="orat data">'  # in the head of a contact sheet
LISTED = 20  # repeated images in the lines
FEATURES = ("name", "status", "train", "test", "shape", "classes", "where")  # the columns of the list of data sets
OF_A_PATH = ("image_size", "class_depth", "target", "out")


def add(commands: Any) -> None:
    """Declares the flags: the data set, how it is read, and the contact sheet."""
    text = "what a data set holds, with a contact sheet; without PATH, the data sets by name"
    one = add_command(commands, "data", run, text)
    one.add_argument("path", nargs="?", metavar="PATH", help="a data set, as --data of `orat train`")
    one.add_argument("--image-size", metavar="HxW", help="resize the images in a training to this")
    one.add_argument("--class-depth", metavar="N", help="levels of folders that make a class (default: 1)")
    one.add_argument("--target", metavar="COLUMN", help="the column of labels of a table")
    one.add_argument(
        "--out", metavar="FILE", help="the contact sheet, an .html page (default: NAME-contact-sheet.html here)"
    )
    one.add_argument("--data-dir", metavar="DIR", help="folder of the data sets (default: $ORAT_DATA, else ./data)")
    one.add_argument("--download", metavar="NAME", help="download mnist, cifar10 or cifar100 into that folder")
    one.add_argument("--json", action="store_true", help="print as JSON")


def run(arguments: Namespace) -> int:
    """Shows one data set, or the list of data sets after a download if one is asked for."""
    if arguments.path is not None:
        if arguments.download is not None:
            raise InputError(f"--download {arguments.download} with {arguments.path}: give one of them")
        return show(arguments)
    for name in OF_A_PATH:
        if getattr(arguments, name) is not None:
            raise InputError(f"{flag(name)} is for one data set: give its path too, as in orat data photos/")
    folder = None if arguments.data_dir is None else Path(arguments.data_dir)
    if arguments.download:
        download(arguments.download, folder)
    return show_list(folder, arguments.json)


def show(arguments: Namespace) -> int:
    """Prints what a data set holds, and writes its contact sheet; exit code 1 if images cannot be read."""
    image_size, depth = read(arguments, "image_size", size), read(arguments, "class_depth", whole, 1)
    out = Path(arguments.out or f"{name_of(arguments.path)}-contact-sheet.html")
    check_out(out)
    from orat.core.device import choose_device
    from orat.core.domain import Reading
    from orat.core.files import replace_file
    from orat.data.contact_sheet import contact_sheet
    from orat.data.inspection import inspect
    from orat.training.defaults import LARGEST

    reading = Reading(image_size, depth, arguments.target, largest=LARGEST[choose_device("auto").type])
    found = inspect(arguments.path, arguments.data_dir, reading, Display())
    replace_file(out, contact_sheet(found, arguments.path).encode(errors="backslashreplace"))
    for line in found.broken.values():
        sys.stderr.write(f"orat: {line}\n")
    if arguments.json:
        print_json({"name": arguments.path} | found.record() | {"contact_sheet": str(out)})
    else:
        print_content(arguments.path, found)
        say(f"contact sheet: {out}")
    return 1 if found.broken else 0


def name_of(path: str) -> str:
    """The last part of a path, without its endings and without signs that a file name cannot have."""
    name = Path(path).resolve().name.partition(":")[0] if "/" in path or Path(path).exists() else path
    return name.partition(".")[0].replace(":", "-").replace("/", "-") or "data"


def check_out(out: Path) -> None:
    """Refuses to replace a file that is no contact sheet, and a place that cannot have one."""
    if not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent}: make it, or give --out another place")
    if out.is_dir() or (out.is_file() and OURS not in out.read_bytes()[:1000]):
        raise InputError(f"{out} exists already and is no contact sheet: give --out another file")


def print_content(title: str, found: Inspection) -> None:
    """Prints the classes, the sizes, the notes, and the files that need a look."""
    titles = {"class": "class"} | {part: part for part in found.counts}
    total = {"class": f"all {len(found.classes):,}"} | found.total
    print_table(plain_table(title, titles, [*found.rows(), total]))
    for line in (*size_lines(found), *found.notes):
        say(line)
    for repeat in found.repeats[:LISTED]:
        say(f"the same image {repeat.words}")
    if len(found.repeats) > LISTED:
        say(f"and {len(found.repeats) - LISTED:,} more images that are there more than once")
    if found.broken:
        say(f"images that cannot be read: {len(found.broken):,}")


def size_lines(found: Inspection) -> list[str]:
    """The line of the sizes in files, and the shape in a training."""
    seen = sorted(found.sizes, key=lambda size: (size[0] * size[1], size))
    texts = [f"{height}x{width}" for height, width in (seen[:1] + seen[-1:])[: len(seen)]]
    sizes = f"size {texts[0]}" if len(seen) == 1 else f"{len(seen):,} sizes, {' to '.join(texts)}" if seen else ""
    shape = "" if found.shape is None else f"in a training {'x'.join(map(str, found.shape))}"
    return ["; ".join(text for text in (f"{sizes} (height x width)" if sizes else "", shape) if text)]


def show_list(data_dir: Path | None, as_json: bool) -> int:
    """Prints the data sets by name."""
    rows = data_rows(data_dir)
    if as_json:
        print_json(rows)
        return 0
    Console(highlight=False).print(plain_table("", {name: name for name in FEATURES}, [shown(row) for row in rows]))
    for row in rows:
        for line in [row["message"]] if row["status"] != "found" else row.get("notes", ()):
            say(line)
    if others := plugins("orat.data"):
        say(f"from plug-ins: {', '.join(sorted(others))}")
    return 0


def data_rows(data_dir: Path | None) -> list[dict[str, Any]]:
    """One row for each data set; public data sets are read and checked, bundled data sets are always present."""
    from orat.data.catalog import NAMES, PUBLIC, found

    public = [
        {
            "name": one.name, "status": one.status, "train": one.train, "test": one.test,
            "shape": list(one.shape), "classes": one.classes, "where": str(one.folder or ""), "message": one.message,
        }
        for one in found(data_dir)
    ]  # fmt: skip
    return public + [read_row(name) for name in NAMES[len(PUBLIC) :]]


def read_row(name: str) -> dict[str, Any]:
    """The row of a bundled data set, after reading its files."""
    from orat.data.catalog import load

    splits = load(name)
    train, test = splits.train, splits.test
    return {
        "name": name, "status": "found", "train": len(train), "test": len(test) if test else 0,
        "shape": list(train.shape), "classes": len(train.classes), "where": "bundled", "message": "whole",
        "notes": list(splits.notes),
    }  # fmt: skip


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people: dashes for the numbers of a data set that is missing or damaged."""
    if row["status"] != "found":
        return row | dict.fromkeys(("train", "test", "shape", "classes"), "-")
    return row | {"shape": "x".join(map(str, row["shape"]))}


def download(name: str, data_dir: Path | None) -> Path:
    """Downloads a public data set with a bar, and returns its folder."""
    from orat.data.catalog import PUBLIC, data_folder
    from orat.data.download import fetch

    if name not in PUBLIC:
        raise unknown("public data set", name, PUBLIC)
    with Display().bar() as bar:
        return fetch(name, data_folder(data_dir), bar.set)
