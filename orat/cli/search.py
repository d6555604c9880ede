"""`orat search`: trains a run with several values of its fields, and ranks them by accuracy on validation."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from orat.cli.flags import add_command, add_many, add_run_flags, assignment, at_once_of, read
from orat.cli.tables import TITLES, percent, print_json, print_table, say
from orat.core.errors import InputError
from orat.core.options import flag, text_of, whole, written
from orat.training.text import as_flags, declared_fields

DOUBT = "validation labels may be wrong too: the table ranks settings and does not estimate accuracy"


def add(commands: Any) -> None:
    """Declares the flags: the fields to vary, the ranking, and a run."""
    text = "try values of k, m or any field, and rank them by accuracy on validation; the same command again goes on"
    one = add_command(commands, "search", run, text, goes_on=True)
    one.description = f"{text}. The test set takes no part; {DOUBT}."
    one.usage = f"{one.prog} --over FIELD=... --method METHOD [flags]"
    one.add_argument(
        "--over", action="append", default=[], metavar="FIELD=...",
        help="a field and its values, such as m=0.1,0.2 (several --over multiply); or, with --trials, its range, such "
        "as m=0.05..0.5, or lr=log:0.001..0.1 on a logarithmic scale",
    )  # fmt: skip
    one.add_argument("--trials", metavar="N", help="let Optuna propose N settings, instead of all combinations")
    one.add_argument("--by", default="pgd10", metavar="{pgd10,natural}", help="accuracy to rank by (default: pgd10)")
    one.add_argument("--search-seed", default="0", metavar="N", help="seed of Optuna's proposals (default: 0)")
    one.add_argument("--show-test", action="store_true", help="also print the accuracy on the test set, unranked")
    add_run_flags(one)
    execution = one.add_argument_group("execution")
    execution.add_argument(
        "--out", default="runs/search", metavar="DIR", help="folder of the search (default: runs/search)"
    )
    add_many(execution, "combinations")


def run(arguments: Namespace) -> int:
    """Searches and prints the table."""
    over = read_over(arguments)
    trials, seed = (read(arguments, name, whole) for name in ("trials", "search_seed"))
    at_once = at_once_of(arguments)
    from orat.core.console import Display
    from orat.sweeps.search import Execution, SearchPlan, carry_out
    from orat.sweeps.space import axes_of, doubts

    axes = axes_of(over, arguments.texts)
    for axis in axes:
        text = arguments.texts.get(axis.field)
        if text is not None and text != arguments.base.get(axis.field):
            raise InputError(f"both {flag(axis.field)} {text} and --over {axis.field}: give one of them")
    plan = SearchPlan(arguments.texts, axes, arguments.by, trials, seed)
    execution = Execution(arguments.data_dir, arguments.device, Display(not arguments.quiet), arguments.engine, at_once)
    out = Path(arguments.out)
    rows = carry_out(plan, out, execution, arguments.show_test)
    warnings = [DOUBT, *(f"warning: {doubt}" for doubt in doubts(axes))]
    if not rows[0]["validation"]:
        warnings.append("no run was finished")
    if arguments.json:
        print_json({"by": plan.by, "rows": rows, "out": str(out), "warnings": warnings})
    else:
        print_search(rows, plan.by, out, warnings)
    return int(not rows[0]["validation"])


def read_over(arguments: Namespace) -> dict[str, str]:
    """The fields to search and the values of each."""
    if not arguments.over:
        raise InputError("--over is not given: name a field and its values, such as --over m=0.1,0.2")
    over: dict[str, str] = {}
    for text in arguments.over:
        field, values = assignment("over", text)
        if field in over:
            raise InputError(f"--over {field} is given twice: give all of its values in one")
        over[field] = values
    return over


def print_search(rows: list[dict[str, Any]], by: str, out: Path, warnings: list[str]) -> None:
    """Prints the settings, the best first, then warnings, and the accuracy on the test set if asked for."""
    print_rows("accuracy in % on validation, at the chosen epoch of each run", "validation", rows)
    for row in rows:
        if row["error"]:
            say(f"{Path(row['folder']).name}: {row['error']}")
    if rows[0]["validation"]:
        texts = {name: setting_text(name, value) for name, value in rows[0]["setting"].items()}
        say(f"best by {TITLES[by]}: {' '.join(as_flags(texts))}")
    for warning in warnings:
        say(warning)
    if any(row.get("test") for row in rows):
        print_rows("accuracy in % on the test set, which took no part in the ranking", "test", rows)
    say(f"run folders and {', '.join(file.name for file in sorted(out.glob('search.*')))}: {out}")


def print_rows(title: str, part: str, rows: list[dict[str, Any]]) -> None:
    """Prints a row for each setting and a column for each attack."""
    columns = list(dict.fromkeys(name for row in rows for name in row[part]))
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in (*rows[0]["setting"], *(TITLES.get(name, name) for name in columns), "epoch"):
        table.add_column(name, justify="right")
    for row in rows:
        setting = (short_text(name, value) for name, value in row["setting"].items())
        figures = (percent(row[part][name]) if name in row[part] else "-" for name in columns)
        table.add_row(*setting, *figures, "-" if row["epoch"] is None else str(row["epoch"]))
    print_table(table)


def setting_text(name: str, value: Any) -> str:
    """The value of a field as `orat train` takes it."""
    known = declared_fields()
    return written(known[name][0], value) if name in known else text_of(value)


def short_text(name: str, value: Any) -> str:
    """The value of a field for people: a long fraction has six digits."""
    text = setting_text(name, value)
    return f"{value:.6g}" if isinstance(value, float) and len(text) > 8 else text
