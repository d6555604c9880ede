"""`orat search`: tries values of k, m or any other field, and ranks them by accuracy on validation."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from orat.cli.arguments import add_command, add_many, at_once_of, read
from orat.cli.flags import add_run_flags
from orat.cli.output import print_json, say
from orat.core.errors import InputError
from orat.core.numbers import whole

DOUBT = "labels of validation images may be wrong too: this ranks settings, and is no estimate of accuracy"


def add(commands: Any) -> None:
    """The flags: what to try, how to choose, and a run."""
    text = "try values of k, m or any field, and rank them by accuracy on validation; the same command again goes on"
    one = add_command(commands, "search", run, text, goes_on=True)
    one.description = f"{text}. The test set takes no part; {DOUBT}."
    one.add_argument(
        "--over", action="append", default=[], metavar="FIELD=...",
        help="a flag and its values, such as m=0.1,0.2 (each one more multiplies the runs); or, with --trials, its "
        "range, such as m=0.05..0.5, or lr=log:0.001..0.1 on a logarithmic scale",
    )  # fmt: skip
    one.add_argument("--trials", metavar="N", help="let Optuna propose so many settings, instead of all combinations")
    one.add_argument("--by", default="pgd10", metavar="{pgd10,natural}", help="accuracy to rank by (default: pgd10)")
    one.add_argument("--search-seed", default="0", metavar="N", help="seed of what Optuna proposes (default: 0)")
    one.add_argument(
        "--show-test", action="store_true", help="also print accuracy on the test set, which chose nothing"
    )
    one.add_argument("--out", default="runs/search", metavar="DIR", help="where all of it goes (default: runs/search)")
    add_many(one, "combinations")
    add_run_flags(one)


def run(arguments: Namespace) -> int:
    """Searches and prints the table."""
    over = read_over(arguments)
    trials, seed = (read(arguments, name, whole) for name in ("trials", "search_seed"))
    at_once = at_once_of(arguments)
    from orat.core.console import Display
    from orat.sweeps.search import Execution, SearchPlan, carry_out
    from orat.sweeps.space import axes_of, doubts

    axes = axes_of(over)
    for axis in axes:
        if getattr(arguments, axis.field) is not None:
            flag = axis.field.replace("_", "-")
            raise InputError(f"both --{flag} {getattr(arguments, axis.field)} and --over {flag}: give one of them")
    plan = SearchPlan(arguments, axes, arguments.by, trials, seed)
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
    """The fields and what to try of each."""
    if not arguments.over:
        raise InputError("--over is not given: name a field and its values, such as --over m=0.1,0.2")
    over: dict[str, str] = {}
    for text in arguments.over:
        name, equals, tried = text.partition("=")
        field = name.strip().removeprefix("--").replace("-", "_")
        if not equals:
            raise InputError(f"--over {text} names no values: write it as {field}=A,B,...")
        if field in over:
            raise InputError(f"--over {field} is given twice: give all of its values in one")
        over[field] = tried
    return over


def print_search(rows: list[dict[str, Any]], by: str, out: Path, warnings: list[str]) -> None:
    """The rows as a table, the best first, what to make of it below, and the test set apart if it is wanted."""
    from orat.cli.tables import TITLES

    print_rows("accuracy in % on validation, at the epoch that each run chose", "validation", rows)
    for row in rows:
        if row["error"]:
            say(f"{Path(row['folder']).name}: {row['error']}")
    if rows[0]["validation"]:
        say(f"best by {TITLES[by]}: {as_flags(rows[0]['setting'])}")
    for warning in warnings:
        say(warning)
    if any(row.get("test") for row in rows):
        print_rows("accuracy in % on the test set, which took no part in the order", "test", rows)
    say(f"run folders and {', '.join(file.name for file in sorted(out.glob('search.*')))}: {out}")


def print_rows(title: str, part: str, rows: list[dict[str, Any]]) -> None:
    """One row a setting, one column an attack."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from orat.cli.tables import TITLES

    columns = list(dict.fromkeys(name for row in rows for name in row[part]))
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for field in rows[0]["setting"]:
        table.add_column(field, justify="right")
    for name in (*(TITLES.get(name, name) for name in columns), "epoch"):
        table.add_column(name, justify="right")
    for row in rows:
        figures = (f"{100 * row[part][name]:.2f}" if name in row[part] else "-" for name in columns)
        setting = (escape(spelled(field, value)) for field, value in row["setting"].items())
        table.add_row(*setting, *figures, "-" if row["epoch"] is None else str(row["epoch"]))
    Console(highlight=False, soft_wrap=True).print(table)


def spelled(field: str, value: Any) -> str:
    """A value for people."""
    from orat.cli.flags import written

    text = written(field, value)
    return f"{value:.6g}" if isinstance(value, float) and len(text) > 8 else text


def as_flags(setting: dict[str, Any]) -> str:
    """A setting as `orat train` takes it."""
    from orat.cli.flags import written

    return " ".join(f"--{field.replace('_', '-')} {written(field, value)}" for field, value in setting.items())
