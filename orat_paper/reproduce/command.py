"""`orat reproduce`: runs the tables and figures of the paper, and shows ours beside theirs."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.flags import add_command, add_many, at_once_of, listed, read
from orat.cli.tables import print_json, say
from orat.core.errors import InputError, unknown
from orat.core.numbers import wholes

if TYPE_CHECKING:
    from orat_paper.reproduce.artifacts import Artifact
    from orat_paper.reproduce.carrying_out import Means
    from orat_paper.reproduce.settings import Places, Trial


def add(commands: Any) -> None:
    """The flags: what to reproduce, which part of it, and how."""
    text = "run the paper's tables and figures, and show ours beside theirs; the same command again goes on"
    one = add_command(commands, "reproduce", run, text, goes_on=True)
    one.add_argument("name", nargs="?", metavar="NAME", help="a table or figure; see --list")
    one.add_argument("--list", action="store_true", help="show all of them: cells, what is done, time, data")
    one.add_argument("--report", action="store_true", help="run nothing: show what is there beside the paper")
    one.add_argument(
        "--only", action="append", default=[], metavar="KEY=VALUE,...",
        help="cells with these values only, such as data=mnist,eps=0.1,method=AT,method=ORAT",
    )  # fmt: skip
    one.add_argument("--seeds", metavar="N,...", help="with commas between (default: 0; of stability 0 to 9)")
    one.add_argument(
        "--protocol", default="ours", metavar="NAMES",
        help="ours: right images, last and validation-chosen epoch; authors: as their code; or ours,authors",
    )  # fmt: skip
    one.add_argument("--with-automatic", action="store_true", help="also ORAT without k and m, beside every ORAT")
    one.add_argument(
        "--data", action="append", default=[], metavar="NAME=PATH",
        help="where a data set lies as a folder, .npz or .tar, such as cifar10=images.tar or clothing1m=FOLDER",
    )  # fmt: skip
    one.add_argument("--weights", metavar="FILE", help="what pretrained starts from")
    one.add_argument(
        "--known", action="append", default=[], metavar="FILE",
        help="a report of runs made elsewhere, as this command writes it (DIR/NAME.json): what it has is not run again",
    )  # fmt: skip
    one.add_argument("--out", default="runs/reproduce", metavar="DIR", help="where runs go (default: runs/reproduce)")
    one.add_argument("--csv", metavar="FILE", help="write the report to this file, too")
    one.add_argument("--no-figure", action="store_true", help="do not draw what is there to DIR/NAME.pdf and .png")
    one.add_argument("--commit", help="the commit that is run, where git does not know it")
    add_many(one, "cells")


def run(arguments: Namespace) -> int:
    """Lists, reports, or runs what is missing and then reports."""
    if arguments.list == (arguments.name is not None):
        raise InputError("give the name of a table or figure, or --list to see all of them")
    places = places_of(arguments)
    if arguments.list:
        return show_list(arguments, places)
    from orat_paper.reproduce.artifacts import artifact

    wanted = artifact(arguments.name)
    check_known(arguments)
    trials = trials_of(wanted, arguments, places)
    table = read(arguments, "csv", Path)
    if table is not None:
        from orat.core.files import check_table

        check_table(table)
    errors = {} if arguments.report else carry_out(wanted, trials, arguments, places)
    return report(wanted, trials, arguments, errors, table)


def check_known(arguments: Namespace) -> None:
    """Refuses to read the file that the report is about to replace: what only it has would be lost."""
    own = (Path(arguments.out) / f"{arguments.name}.json").resolve()
    for file in arguments.known:
        if Path(file).resolve() == own:
            raise InputError(f"--known {file} is where the report goes: move it elsewhere, or give another --out")


def carry_out(artifact: Artifact, trials: list[Trial], arguments: Namespace, places: Places) -> dict[str, str]:
    """Runs what is missing; returns why cells have no result."""
    from orat_paper.reproduce import carrying_out

    means = means_of(arguments, places)
    errors = carrying_out.carry_out(trials, artifact.columns, means)
    return {trial.folder.name: reason for trial, reason in errors.items()}


def means_of(arguments: Namespace, places: Places) -> Means:
    """With what cells are run."""
    at_once = at_once_of(arguments)
    from orat.core.console import Display
    from orat_paper.reproduce.carrying_out import Means

    display = Display(not arguments.quiet)
    data_dir = read(arguments, "data_dir", Path)
    return Means(places, data_dir, arguments.device, display, arguments.engine, at_once, arguments.commit)


def report(
    artifact: Artifact, trials: list[Trial], arguments: Namespace, errors: dict[str, str], table: Path | None
) -> int:
    """Prints the join and writes it as JSON, as a figure, and as CSV where that is wanted."""
    from orat.core.files import replace_file, write_table
    from orat_paper.reproduce.joining import content, joined
    from orat_paper.reproduce.showing import print_report

    rows = joined(artifact, trials)
    whole = content(artifact, trials, rows) | {"errors": errors}
    if table is not None:
        write_table(table, {name: [row[name] for row in rows] for name in rows[0]})
    file = Path(arguments.out) / f"{artifact.name}.json"
    if whole["runs"]:  # which may all have been made elsewhere
        file.parent.mkdir(parents=True, exist_ok=True)
    if file.parent.is_dir():
        replace_file(file, json.dumps(whole, indent=1).encode() + b"\n")
    if arguments.json:
        print_json(whole)
    else:
        print_report(artifact, rows, errors)
        say(f"runs and {file.name}: {arguments.out}" if file.is_file() else f"{arguments.out}: no runs yet")
    if not arguments.no_figure:
        show_figure(whole, arguments)
    return int(bool(errors))


def show_figure(whole: dict[str, Any], arguments: Namespace) -> None:
    """Draws the report and says where; beside JSON, which is all of standard output, with the other lines."""
    from orat.core.console import Display
    from orat_paper.reproduce.figures import draw

    line = draw(whole, Path(arguments.out))
    if line is not None and arguments.json:
        Display(not arguments.quiet).line(line)
    elif line is not None:
        say(line)


def trials_of(artifact: Artifact, arguments: Namespace, places: Places) -> list[Trial]:
    """The chosen cells under every protocol with every seed."""
    from orat_paper.reproduce.artifacts import with_automatic
    from orat_paper.reproduce.cells import choose, read_only
    from orat_paper.reproduce.settings import trial_of

    cells = with_automatic(artifact.cells) if arguments.with_automatic else artifact.cells
    chosen = choose(cells, read_only(arguments.only), artifact.name)
    return [
        trial_of(artifact, cell, protocol, seed, places)
        for protocol in protocols_of(arguments)
        for cell in chosen
        for seed in seeds_of(artifact, arguments, places)
    ]


def protocols_of(arguments: Namespace) -> tuple[str, ...]:
    """The protocols that are wanted."""
    from orat_paper.reproduce.artifacts import PROTOCOLS

    names = tuple(dict.fromkeys(listed(arguments.protocol))) or ("",)
    for name in names:
        if name not in PROTOCOLS:
            raise unknown("protocol", name, PROTOCOLS)
    return names


def given_seeds(arguments: Namespace) -> tuple[int, ...] | None:
    """The seeds that are wanted, if any are said."""
    if arguments.seeds is None:
        return None
    seeds: tuple[int, ...] = tuple(dict.fromkeys(read(arguments, "seeds", wholes)))
    if not seeds or min(seeds) < 0:
        raise InputError(f"--seeds {arguments.seeds}: give whole numbers of 0 or more, such as 0,1,2")
    return seeds


def seeds_of(artifact: Artifact, arguments: Namespace, places: Places) -> tuple[int, ...]:
    """Those given, else those of the table; in a report also those of runs that are there or known."""
    if (given := given_seeds(arguments)) is not None:
        return given
    if not arguments.report:
        return artifact.seeds
    names = [*places.reported, *(folder.name for folder in places.out.glob("*-seed*-*"))]
    there = {int(found[1]) for name in names if (found := re.search(r"-seed(\d+)-", name))}
    return tuple(sorted({*artifact.seeds, *there}))


def places_of(arguments: Namespace) -> Places:
    """Where runs go, where data lies, and which runs were made elsewhere."""
    from orat_paper.reproduce.artifacts import artifacts
    from orat_paper.reproduce.reports import read_reports
    from orat_paper.reproduce.settings import Places

    known = dict.fromkeys(cell.data for one in artifacts().values() for cell in one.cells)
    data = {}
    for text in arguments.data:
        name, equals, path = text.partition("=")
        if name not in known:
            raise unknown("data set of --data:", name, known)
        if not equals or not path:
            raise InputError(f"--data {text} names no place: write it as {name}=PATH")
        data[name] = path
    return Places(Path(arguments.out), data, arguments.weights, read_reports(map(Path, arguments.known)))


def show_list(arguments: Namespace, places: Places) -> int:
    """All tables and figures."""
    from orat_paper.reproduce.listing import listing

    if arguments.only or arguments.report:
        raise InputError("--only and --report go with the name of a table or figure: leave --list out")
    rows, notes = listing(protocols_of(arguments), given_seeds(arguments), means_of(arguments, places))
    if arguments.json:
        print_json({"rows": rows, "notes": notes})
        return 0
    from orat_paper.reproduce.showing import print_list

    print_list(rows, notes)
    return 0
