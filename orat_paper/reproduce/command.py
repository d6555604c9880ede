"""`orat paper reproduce`: runs the tables and figures of the paper, and reports ours beside the paper's."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.flags import add_command, add_many, at_once_of, listed, read
from orat.cli.tables import print_json, say
from orat.core.errors import InputError, unknown
from orat.core.options import whole

if TYPE_CHECKING:
    from orat_paper.reproduce.artifacts import Artifact
    from orat_paper.reproduce.settings import Places, Trial
    from orat_paper.reproduce.trials import Execution


def add(commands: Any) -> None:
    """The flags: the table or figure, the choice of its cells, and the execution."""
    text = "run the paper's tables and figures and report ours beside the paper's; the same command resumes"
    one = add_command(commands, "reproduce", run, text, goes_on=True)
    one.add_argument("name", nargs="?", metavar="NAME", help="a table or figure; see --list")
    one.add_argument("--list", action="store_true", help="list all tables and figures: cells, runs, time, data")
    one.add_argument("--report", action="store_true", help="run nothing: report the finished runs beside the paper")
    one.add_argument(
        "--only", action="append", default=[], metavar="KEY=VALUE,...",
        help="only cells with these values, such as data=mnist,eps=0.1,method=AT,method=ORAT",
    )  # fmt: skip
    one.add_argument("--seeds", metavar="N,...", help="with commas between (default: 0; of stability 0 to 9)")
    one.add_argument(
        "--protocol", default="ours", metavar="NAMES",
        help="ours: right images, last epoch and epoch chosen on validation; authors: as their code; authors-right: "
        "the same on right images; several with commas between",
    )  # fmt: skip
    for form, what in (("automatic", "(automatic)"), ("measured", "by --solver minmax-measured")):
        one.add_argument(
            f"--with-{form}", action="append_const", dest="beside", const=f"ORAT {form}", default=[],
            help=f"add ORAT {what} beside every ORAT",
        )  # fmt: skip
    one.add_argument(
        "--data", action="append", default=[], metavar="NAME=PATH",
        help="a data set as a folder, .npz or .tar, such as cifar10=images.tar or clothing1m=FOLDER",
    )  # fmt: skip
    one.add_argument("--weights", metavar="FILE", help="first weights of the cells of pretrained")
    one.add_argument(
        "--known", action="append", default=[], metavar="FILE",
        help="a report of another machine, written by this command (DIR/NAME.json): its runs are not repeated",
    )  # fmt: skip
    one.add_argument("--out", default="runs/reproduce", metavar="DIR", help="runs go here (default: runs/reproduce)")
    one.add_argument("--csv", metavar="FILE", help="write the report to this file, too")
    one.add_argument("--no-figure", action="store_true", help="do not draw DIR/NAME.pdf and .png")
    one.add_argument("--commit", help="the commit, for a machine without git")
    add_many(one, "cells")


def run(arguments: Namespace) -> int:
    """Lists the tables and figures, or runs missing cells of one and reports it."""
    if arguments.list == (arguments.name is not None):
        raise InputError("give the name of a table or figure, or --list to see all")
    places = places_of(arguments)
    if arguments.list:
        return print_overview(arguments, places)
    from orat_paper.reproduce.artifacts import artifact

    wanted = artifact(arguments.name)
    check_known(arguments)
    trials = trials_of(wanted, arguments, places)
    table = read(arguments, "csv", Path)
    if table is not None:
        from orat.core.files import check_table

        check_table(table)
    errors = {} if arguments.report else run_missing(wanted, trials, arguments, places)
    return report(wanted, trials, arguments, errors, table)


def check_known(arguments: Namespace) -> None:
    """Refuses a known report that the new report would replace."""
    own = (Path(arguments.out) / f"{arguments.name}.json").resolve()
    for file in arguments.known:
        if Path(file).resolve() == own:
            raise InputError(f"--known {file} is the file of the new report: move it, or give another --out")


def run_missing(artifact: Artifact, trials: list[Trial], arguments: Namespace, places: Places) -> dict[str, str]:
    """Runs missing trials; returns the errors of trials without a result by folder."""
    from orat_paper.reproduce.trials import run_trials

    errors = run_trials(trials, artifact.columns, execution_of(arguments, places))
    return {trial.folder.name: reason for trial, reason in errors.items()}


def execution_of(arguments: Namespace, places: Places) -> Execution:
    """The execution that the flags describe."""
    at_once = at_once_of(arguments)
    from orat.core.console import Display
    from orat_paper.reproduce.trials import Execution

    display = Display(not arguments.quiet)
    data_dir = read(arguments, "data_dir", Path)
    return Execution(places, data_dir, arguments.device, display, arguments.engine, at_once, arguments.commit)


def report(
    artifact: Artifact, trials: list[Trial], arguments: Namespace, errors: dict[str, str], table: Path | None
) -> int:
    """Prints the report and writes it as JSON, as a figure, and as CSV."""
    from orat.core.files import write_table
    from orat_paper.reproduce.comparison import compare, content
    from orat_paper.reproduce.tables import print_report

    rows = compare(artifact, trials)
    whole = content(artifact, trials, rows) | {"errors": errors}
    if table is not None:
        write_table(table, {name: [row[name] for row in rows] for name in rows[0]})
    file = Path(arguments.out) / f"{artifact.name}.json"
    write_report(whole, file)
    if arguments.json:
        print_json(whole)
    else:
        print_report(artifact, rows, errors)
        say(f"runs and {file.name}: {arguments.out}" if file.is_file() else f"{arguments.out}: no runs yet")
    if not arguments.no_figure:
        print_figure(whole, arguments)
    return int(bool(errors))


def write_report(content: Mapping[str, Any], file: Path) -> None:
    """Writes a report with runs, or any report into an existing folder."""
    from orat.core.files import replace_file

    if content["runs"]:  # all of which may come from other machines
        file.parent.mkdir(parents=True, exist_ok=True)
    if file.parent.is_dir():
        replace_file(file, json.dumps(content, indent=1).encode() + b"\n")


def print_figure(whole: dict[str, Any], arguments: Namespace) -> None:
    """Draws the report; the line on its files goes to standard error beside JSON."""
    from orat.core.console import Display
    from orat_paper.reproduce.figures import draw

    line = draw(whole, Path(arguments.out))
    if line is not None and arguments.json:
        Display(not arguments.quiet).line(line)
    elif line is not None:
        say(line)


def trials_of(artifact: Artifact, arguments: Namespace, places: Places) -> list[Trial]:
    """The chosen cells under every protocol with every seed."""
    from orat_paper.reproduce.artifacts import beside_orat
    from orat_paper.reproduce.cells import choose, read_only
    from orat_paper.reproduce.settings import trial_of

    cells = beside_orat(artifact.cells, dict.fromkeys(arguments.beside))
    chosen = choose(cells, read_only(arguments.only), artifact.name)
    return [
        trial_of(artifact, cell, protocol, seed, places)
        for protocol in protocols_of(arguments)
        for cell in chosen
        for seed in seeds_of(artifact, arguments, places)
    ]


def protocols_of(arguments: Namespace) -> tuple[str, ...]:
    """The wanted protocols."""
    from orat_paper.reproduce.artifacts import PROTOCOLS

    names = tuple(dict.fromkeys(listed(arguments.protocol))) or ("",)
    for name in names:
        if name not in PROTOCOLS:
            raise unknown("protocol", name, PROTOCOLS)
    return names


def given_seeds(arguments: Namespace) -> tuple[int, ...] | None:
    """The seeds of --seeds."""
    if arguments.seeds is None:
        return None
    seeds: tuple[int, ...] = tuple(dict.fromkeys(read(arguments, "seeds", wholes)))
    if not seeds or min(seeds) < 0:
        raise InputError(f"--seeds {arguments.seeds}: give whole numbers of 0 or more, such as 0,1,2")
    return seeds


def seeds_of(artifact: Artifact, arguments: Namespace, places: Places) -> tuple[int, ...]:
    """The seeds of --seeds, else of the artifact; a report adds the seeds of present and known runs."""
    if (given := given_seeds(arguments)) is not None:
        return given
    if not arguments.report:
        return artifact.seeds
    names = (folder.name for folder in places.out.glob("*-seed*-*"))
    present = {int(found[1]) for name in names if (found := re.search(r"-seed(\d+)-", name))}
    return tuple(sorted({*artifact.seeds, *present, *(identity.seed for identity in places.reported)}))


def places_of(arguments: Namespace) -> Places:
    """The folder of the runs, the places of data sets, and the runs of other machines."""
    from orat_paper.reproduce.artifacts import artifacts
    from orat_paper.reproduce.reports import read_reports
    from orat_paper.reproduce.settings import Places

    names = dict.fromkeys(cell.data for one in artifacts().values() for cell in one.cells)
    data = {}
    for text in arguments.data:
        name, equals, path = text.partition("=")
        if name not in names:
            raise unknown("data set of --data:", name, names)
        if not equals or not path:
            raise InputError(f"--data {text} names no place: write {name}=PATH")
        data[name] = path
    return Places(Path(arguments.out), data, arguments.weights, read_reports(map(Path, arguments.known)))


def print_overview(arguments: Namespace, places: Places) -> int:
    """Prints all tables and figures."""
    from orat_paper.reproduce.overview import overview

    if arguments.only or arguments.report:
        raise InputError("--only and --report belong to a table or figure: leave --list out")
    rows, notes = overview(protocols_of(arguments), given_seeds(arguments), execution_of(arguments, places))
    if arguments.json:
        print_json({"rows": rows, "notes": notes})
        return 0
    from orat_paper.reproduce.tables import print_list

    print_list(rows, notes)
    return 0


def wholes(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them; an empty text has none."""
    return tuple(whole(part) for part in text.split(",") if part)
