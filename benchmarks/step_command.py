"""`orat bench`: how long a training step takes, the textbook's and ours."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.flags import add_command, listed, read
from orat.cli.tables import print_json, say
from orat.core.errors import InputError
from orat.core.numbers import whole

if TYPE_CHECKING:
    from step_speed import Comparison

MODELS = {"cpu": "lenet", "cuda": "lenet,small_cnn,resnet18"}
STEPS = {"cpu": 3, "cuda": 50}
TITLES = (
    "model", "device", "engine", "precision", "textbook ms", "ours ms", "ratio", "floor ms", "share %", "memory MiB",
)  # fmt: skip
TEXT_COLUMNS = 4


def add(commands: Any) -> None:
    """The flags: what to time, how, and how often."""
    text = "time of one training step: the textbook's, ours, and the least that its arithmetic takes"
    one = add_command(commands, "bench", run, text)
    one.add_argument(
        "--model", metavar="NAMES", help="with commas between (default: lenet; on a GPU small_cnn,resnet18 too)"
    )
    one.add_argument("--device", default="auto", help="cpu, cuda or auto (default: auto)")
    one.add_argument("--engine", default="auto", help="of ours: plain, replica, recorded, compiled (default: auto)")
    one.add_argument("--precision", default="auto", help="of ours: auto, mixed, tf32, float32 (default: auto)")
    one.add_argument("--batch-size", metavar="N", help="samples a step (default: 128)")
    one.add_argument("--attack-steps", metavar="N", help="steps of the training attack (default: 10)")
    one.add_argument("--rounds", metavar="N", help="turns that each of the two has (default: 5)")
    one.add_argument("--steps", metavar="N", help="training steps in a turn (default: 3; on a GPU 50)")
    one.add_argument("--json", action="store_true", help="print the result as JSON")
    one.add_argument("--out", metavar="FILE", help="write the JSON to this file, too")
    one.add_argument("--commit", help="the commit that is timed, where git does not know it")
    one.add_argument("--page", nargs="+", metavar="FILE", help="time nothing: print these files as a Markdown table")


def run(arguments: Namespace) -> int:
    """Times the steps and prints a table, or prints the page of what was timed."""
    if arguments.page:
        say(page({name: recorded(Path(name)) for name in arguments.page}))
        return 0
    from step_speed import compare

    from orat.core.console import Display
    from orat.core.provenance import commit, hardware, versions

    plan, out = plan_of(arguments), read(arguments, "out", file_to_write)
    rows: list[dict[str, Any]] = []
    content = {
        "what": "one training step (PGD and update), milliseconds: median over rounds of the mean of a round's steps",
        "rows": rows,
        "hardware": hardware(plan.device),
        "versions": versions(),
        "commit": arguments.commit or commit(),
    }
    for row in compare(plan, Display()):
        rows.append(row)
        if out:  # at once: the next network may take long
            out.write_text(json.dumps(content, indent=1) + "\n")
    if arguments.json:
        print_json(content)
        return 0
    show(content)
    return 0


def plan_of(arguments: Namespace) -> Comparison:
    """What the flags ask for."""
    from step_speed import Comparison

    from orat.core.device import choose_device

    device = choose_device(arguments.device)
    kind = "cuda" if device.type == "cuda" else "cpu"
    models = listed(MODELS[kind] if arguments.model is None else arguments.model)
    if not models:
        raise InputError("--model names none: give lenet,small_cnn or others")
    return Comparison(
        models=models,
        device=device,
        engine=arguments.engine,
        precision=arguments.precision,
        batch_size=read(arguments, "batch_size", whole, 128),
        attack_steps=read(arguments, "attack_steps", whole, 10),
        rounds=read(arguments, "rounds", whole, 5),
        steps=read(arguments, "steps", whole, STEPS[kind]),
    )


def file_to_write(text: str) -> Path:
    """A file that can be written, in a folder that is there: said before anything is timed, not after."""
    file = Path(text)
    if file.is_dir():
        raise InputError(f"{text} is a folder: give a file")
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def show(content: dict[str, Any]) -> None:
    """The rows as an aligned table, and below what was timed on what."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)  # 80 columns are enough
    for place, title in enumerate(TITLES):
        table.add_column(title.replace(" ", "\n"), justify="left" if place < TEXT_COLUMNS else "right", no_wrap=True)
    for row in content["rows"]:
        table.add_row(row["model"], row["device"], row["engine"], row["precision"], *figures(row))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for row in content["rows"]:
        console.print(f"{row['model']}: {settings(row)}", markup=False)
    console.print(f"{machine(content)}, torch {content['versions']['torch']}, commit {content['commit']}", markup=False)


def figures(row: dict[str, Any]) -> list[str]:
    """The numbers of a row, as they are shown."""
    memory = "-" if row["memory_mib"] is None else f"{row['memory_mib']:,.0f}"
    textbook, ours, floor = (milliseconds(row[f"{name}_ms"]) for name in ("textbook", "ours", "floor"))
    return [textbook, ours, f"{row['ratio']:.2f}", floor, f"{100 * row['share']:.0f}", memory]


def milliseconds(time: float) -> str:
    """Three digits or more."""
    return f"{time:.2f}" if time < 100 else f"{time:,.0f}"


def settings(row: dict[str, Any]) -> str:
    """What a row was timed with."""
    return (
        f"batch of {row['batch_size']}, PGD-{row['attack_steps']}, {row['rounds']} rounds of {row['steps']} steps, "
        f"{row['flops'] / 1e9:,.1f} GFLOP a step, matrix product in {row['attack_type']} {row['rate']:,.3g} TFLOP/s"
    )


def machine(content: dict[str, Any]) -> str:
    """What a file was measured on, in words."""
    found = content["hardware"]
    return (
        found["device"] if content["rows"][0]["device"] == "cuda" else f"{found['device']}, {found['threads']} threads"
    )


def recorded(file: Path) -> dict[str, Any]:
    """What `--out` wrote."""
    try:
        content: dict[str, Any] = json.loads(file.read_text())
        page({str(file): content})
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{file} was not written by `orat bench --out` ({error}): give one that was") from None
    return content


def page(contents: dict[str, dict[str, Any]]) -> str:
    """Files as one Markdown table, small networks first, and a line on each file."""
    columns = ("model", "machine", "engine", "precision (attack)", *TITLES[TEXT_COLUMNS:])
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    rows = [(row, machine(content)) for content in contents.values() for row in content["rows"]]
    for row, where in sorted(rows, key=lambda pair: (pair[0]["device"], pair[0]["flops"])):
        precision = f"{row['precision']} ({row['attack_type']})"
        lines.append(f"| {' | '.join([row['model'], where, row['engine'], precision, *figures(row)])} |")
    lines.append("")
    for name, content in contents.items():
        what = "; ".join(f"{row['model']}: {settings(row)}" for row in content["rows"])
        lines.append(f"- [{name}]({name}): torch {content['versions']['torch']}, commit {content['commit']}. {what}.")
    return "\n".join(lines)
