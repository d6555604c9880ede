"""Times one training step: the textbook's, ours, and the least time that its arithmetic takes.

    python benchmarks/step.py --model lenet --out results/bench-cpu.json
    python benchmarks/step.py --page results/bench-*.json

The first command times steps and prints a table. The second prints such files as the Markdown table of docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich import box
from rich.console import Console
from rich.table import Table
from step_speed import Comparison, compare

from orat.core.console import Display
from orat.core.device import choose_device, commit, hardware, versions
from orat.core.errors import InputError

MODELS = {"cpu": "lenet", "cuda": "lenet,small_cnn,resnet18"}
STEPS = {"cpu": 3, "cuda": 50}
TITLES = (
    "model", "device", "engine", "precision", "textbook ms", "ours ms", "ratio", "floor ms", "share %", "memory MiB",
)  # fmt: skip
TEXT_COLUMNS = 4
WHAT = "one training step (PGD and update), milliseconds: median over rounds of the mean of a round's steps"


class Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> NoReturn:
        """Raises the error for `main`."""
        raise InputError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Times steps, or prints the page of timed steps; a wrong flag is one line on standard error and exit code 2."""
    try:
        arguments = parser().parse_args(argv)
        if arguments.page:
            sys.stdout.write(page({name: recorded(Path(name)) for name in arguments.page}) + "\n")
        else:
            measure(arguments)
    except (InputError, OSError) as error:
        sys.stderr.write(f"step.py: {error}\n")
        return 2
    return 0


def parser() -> Parser:
    """The flags."""
    one = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    one.add_argument("--model", metavar="NAMES", help=f"networks (default: {MODELS['cpu']}; on a GPU {MODELS['cuda']})")
    one.add_argument("--device", default="auto", help="cpu, cuda or auto (default: auto)")
    one.add_argument("--engine", default="auto", help="our engine, as in `orat train` (default: auto)")
    one.add_argument("--precision", default="auto", help="our precision, as in `orat train` (default: auto)")
    one.add_argument("--batch-size", type=int, default=128, metavar="N", help="samples in a step (default: 128)")
    one.add_argument("--attack-steps", type=int, default=10, metavar="N", help="steps of the attack (default: 10)")
    one.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default: 5)")
    one.add_argument("--steps", type=int, metavar="N", help="steps in a round (default: 3; on a GPU 50)")
    one.add_argument("--json", action="store_true", help="print the result as JSON")
    one.add_argument("--out", type=Path, metavar="FILE", help="write the JSON to this file, too")
    one.add_argument("--commit", help="the timed commit, for a machine without git")
    one.add_argument("--page", nargs="+", metavar="FILE", help="time nothing: print these files as a Markdown table")
    return one


def measure(arguments: argparse.Namespace) -> None:
    """Times the steps, prints the table, and writes the file after every network."""
    plan, rows = plan_of(arguments), list[dict[str, Any]]()
    if arguments.out is not None:
        check_writable(arguments.out)
    origin = {"hardware": hardware(plan.device), "versions": versions(), "commit": arguments.commit or commit()}
    content = {"what": WHAT, "rows": rows, **origin}
    for row in compare(plan, Display()):
        rows.append(row)
        if arguments.out is not None:
            arguments.out.write_text(json.dumps(content, indent=1) + "\n")
    if arguments.json:
        sys.stdout.write(json.dumps(content) + "\n")
    else:
        show(content)


def plan_of(arguments: argparse.Namespace) -> Comparison:
    """The comparison that the flags describe."""
    device = choose_device(arguments.device)
    kind = "cuda" if device.type == "cuda" else "cpu"
    names = (arguments.model or MODELS[kind]).split(",")
    models = tuple(name.strip() for name in names if name.strip())
    if not models:
        raise InputError("--model names no network: give lenet,small_cnn or others")
    return Comparison(
        models, device, arguments.engine, arguments.precision, arguments.batch_size, arguments.attack_steps,
        arguments.rounds, STEPS[kind] if arguments.steps is None else arguments.steps,
    )  # fmt: skip


def check_writable(file: Path) -> None:
    """Refuses a folder before anything is timed, and makes the folder of the file."""
    if file.is_dir():
        raise InputError(f"--out {file} is a folder: give a file")
    file.parent.mkdir(parents=True, exist_ok=True)


def show(content: Mapping[str, Any]) -> None:
    """Prints the rows as an aligned table, and the settings and the machine below."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)  # fits 80 columns
    for place, title in enumerate(TITLES):
        table.add_column(title.replace(" ", "\n"), justify="left" if place < TEXT_COLUMNS else "right", no_wrap=True)
    for row in content["rows"]:
        table.add_row(row["model"], row["device"], row["engine"], row["precision"], *figures(row))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for row in content["rows"]:
        console.print(f"{row['model']}: {settings(row)}", markup=False)
    console.print(f"{machine(content)}, torch {content['versions']['torch']}, commit {content['commit']}", markup=False)


def figures(row: Mapping[str, Any]) -> list[str]:
    """The numbers of a row as text."""
    memory = "-" if row["memory_mib"] is None else f"{row['memory_mib']:,.0f}"
    textbook, ours, floor = (milliseconds(row[f"{name}_ms"]) for name in ("textbook", "ours", "floor"))
    return [textbook, ours, f"{row['ratio']:.2f}", floor, f"{100 * row['share']:.0f}", memory]


def milliseconds(time: float) -> str:
    """A time with at least three digits."""
    return f"{time:.2f}" if time < 100 else f"{time:,.0f}"


def settings(row: Mapping[str, Any]) -> str:
    """The settings of a row in words."""
    return (
        f"batch of {row['batch_size']}, PGD-{row['attack_steps']}, {row['rounds']} rounds of {row['steps']} steps, "
        f"{row['flops'] / 1e9:,.1f} GFLOP a step, matrix product in {row['attack_type']} {row['rate']:,.3g} TFLOP/s"
    )


def machine(content: Mapping[str, Any]) -> str:
    """The hardware of a file in words."""
    found = content["hardware"]
    return (
        found["device"] if content["rows"][0]["device"] == "cuda" else f"{found['device']}, {found['threads']} threads"
    )


def recorded(file: Path) -> dict[str, Any]:
    """The content of a file that `--out` wrote."""
    try:
        content: dict[str, Any] = json.loads(file.read_text())
        page({str(file): content})
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"--page {file} is no file of benchmarks/step.py --out ({error}): give another") from None
    return content


def page(contents: Mapping[str, Mapping[str, Any]]) -> str:
    """The files as one Markdown table, small networks first, and one line on each file."""
    columns = ("model", "machine", "engine", "precision (attack)", *TITLES[TEXT_COLUMNS:])
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    rows = [(row, machine(content)) for content in contents.values() for row in content["rows"]]
    for row, where in sorted(rows, key=lambda pair: (pair[0]["device"], pair[0]["flops"])):
        precision = f"{row['precision']} ({row['attack_type']})"
        lines.append(f"| {' | '.join([row['model'], where, row['engine'], precision, *figures(row)])} |")
    lines.append("")
    for name, content in contents.items():
        measured = "; ".join(f"{row['model']}: {settings(row)}" for row in content["rows"])
        origin = f"torch {content['versions']['torch']}, commit {content['commit']}"
        lines.append(f"- [{name}](../{name}): {origin}. {measured}.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
