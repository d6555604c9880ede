"""The command line: train, evaluate, data, demo. Nothing here imports torch before a command runs."""

from __future__ import annotations

import errno
import json
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.errors import InputError, TrainingError
from orat.flags import Parser, add_run_flags, run_from
from orat.numbers import number, size, whole

if TYPE_CHECKING:
    from orat.examination import Plan
    from orat.subjects import Subject

ATTACKS = (
    "fgsm, pgd20, cw (as in the paper), fgsm-plain, pgd20-madry, cw-margin, pgdN or pgdNxR (N steps, R restarts), "
    "cw-l2, apgd-ce, apgd-dlr, apgd-t, fab-t, square, autoattack, autoattack-reference"
)


def main(argv: list[str] | None = None) -> int:
    """Runs one command; what the user can mend is one line on standard error and exit code 2."""
    try:
        arguments = parser().parse(sys.argv[1:] if argv is None else argv)
        return arguments.command(arguments)
    except InputError as error:
        return fail(str(error), 2)
    except TrainingError as error:
        return fail(str(error), 1)
    except OSError as error:
        return fail(disk_error(error), 2)
    except KeyboardInterrupt:
        return fail("stopped; the same command goes on from there", 130)


def fail(message: str, code: int) -> int:
    """One line for the user, and the exit code."""
    sys.stderr.write(f"orat: {message}\n")
    return code


def disk_error(error: OSError) -> str:
    """What went wrong with a file, and what to do."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{where}{error.strerror}: what was saved before is whole; "
            "make room and give the same command again to go on"
        )
    return f"{where}{error.strerror or error}"


def parser() -> Parser:
    """The parser of all commands."""
    top = Parser(prog="orat", description="Train classifiers that withstand wrong labels and attacked inputs.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    add_train(commands)
    add_evaluate(commands)
    add_data(commands)
    add_demo(commands)
    return top


def add_command(commands: Any, name: str, command: Any, text: str) -> Parser:
    """One command with what all commands share."""
    one: Parser = commands.add_parser(name, help=text, description=text)
    one.set_defaults(command=command, parser=one)
    return one


def add_places(one: Parser) -> None:
    """Where the data and the device are."""
    one.add_argument("--data-dir", metavar="DIR", help="where data sets lie (default: $ORAT_DATA, else ./data)")
    one.add_argument("--device", default="auto", help="cpu, cuda or auto (default: auto)")
    one.add_argument("--json", action="store_true", help="print the result as JSON")


def add_train(commands: Any) -> None:
    """orat train."""
    one = add_command(commands, "train", train, "train a network and test it; the same command again resumes")
    one.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/ and a name made from the run)")
    one.add_argument("--quiet", action="store_true", help="no progress")
    add_places(one)
    add_run_flags(one)


def train(arguments: Namespace) -> int:
    """Trains a run and prints its result."""
    run = run_from(arguments)
    from orat.execute import default_folder
    from orat.execute import train as execute
    from orat.progress import Display
    from orat.tables import outlier_line, print_accuracy, shares

    out = Path(arguments.out) if arguments.out else default_folder(run)
    result = execute(run, out, arguments.data_dir, arguments.device, Display(not arguments.quiet))
    if arguments.json:
        print_json(result | {"folder": str(out)})
        return 0
    rows = {
        f"{which} (epoch {result[which]['epoch']})": shares(result[which])
        for which in ("last", "chosen")
        if result[which]
    }
    if result["examples"]:
        print_accuracy(f"{run.data}, {run.method_name}", rows, run.eps, run.norm, result["examples"])
    else:
        say(f"{run.data} has no test part; accuracy on what was held out is in history.jsonl")
    if result["outliers"]:
        say(outlier_line(result["outliers"]))
    say(f"run folder: {out}")
    return 0


def add_evaluate(commands: Any) -> None:
    """orat evaluate."""
    text = "accuracy of a finished run, or of anybody's model, under attack; the same command again goes on"
    one = add_command(commands, "evaluate", evaluate, text)
    one.add_argument("run", nargs="?", metavar="RUN", help="the run's folder")
    one.add_argument("--attacks", default="fgsm,pgd20,cw", metavar="NAMES", help=f"with commas between: {ATTACKS}")
    one.add_argument("--eps", help="another radius than the run's, such as 8/255")
    one.add_argument("--norm", help="another norm than the run's: linf, l2 or l1")
    one.add_argument("--examples", metavar="N", help="only the first N test images")
    one.add_argument("--weights", help="of a run: last or chosen epoch (default: last); with --model: a file")
    one.add_argument("--model", metavar="MODULE:FUNCTION", help="a function that returns a torch module instead of RUN")
    one.add_argument("--data", help="with --model: what to test it on, as in `orat train`")
    one.add_argument("--image-size", metavar="HxW", help="with --data: resize the folder's images to this")
    one.add_argument("--seed", help="of the attacks (default: the run's)")
    one.add_argument("--precision", default="auto", help="of the search: auto, half, float32 (default: auto)")
    one.add_argument("--batch-size", metavar="N", help="samples at a time; changes no answer")
    one.add_argument("--curves", nargs="?", const="eps,steps", metavar="eps,steps", help="accuracy against these, too")
    one.add_argument("--table", metavar="FILE", help="what broke which image, as .csv or .parquet")
    one.add_argument("--out", metavar="DIR", help="where reports go (default: a folder in the run's)")
    one.add_argument("--again", action="store_true", help="start over instead of going on")
    add_places(one)


def evaluate(arguments: Namespace) -> int:
    """Examines a model, and draws its curves if they are wanted."""
    from orat.attacks.suite import check_names
    from orat.curves import check_curves, write_curves
    from orat.examination import examine, report_folder
    from orat.progress import Display
    from orat.tables import print_curve, print_report

    if not listed(arguments.attacks):
        raise InputError("--attacks names none: give pgd20,autoattack or others")
    check_names(listed(arguments.attacks))
    subject = subject_of(arguments)
    plan = plan_of(arguments, subject)
    check_curves(curves := listed(arguments.curves), plan.eps)
    folder = Path(arguments.out) if arguments.out else report_folder(subject.reports, subject.model, subject.test, plan)
    report = examine(subject.model, subject.test, plan, folder, Display(), arguments.again)
    drawn = write_curves(curves, subject.model, subject.test, plan.eps, plan.norm, plan.seed, folder, Display())
    report["warnings"] += [warning for curve in drawn for warning in curve["warnings"]]
    if arguments.json:
        print_json(report | {"folder": str(folder)} | ({"curves": drawn} if drawn else {}))
        return 0
    print_report(arguments.run or arguments.model, report)
    for curve in drawn:
        print_curve(curve)
    say(f"report, samples{' and curves' if drawn else ''}: {folder}")
    return 0


def subject_of(arguments: Namespace) -> Subject:
    """What is to be examined."""
    data_dir = read(arguments, "data_dir", Path)
    examples = read(arguments, "examples", whole)
    image_size = read(arguments, "image_size", size)
    if (arguments.run is None) == (arguments.model is None):
        raise InputError("give either a run's folder, or --model package.module:function with --data")
    if (arguments.model is None) != (arguments.data is None):
        raise InputError("--model and --data go together: whose model, and what to test it on")
    if arguments.image_size is not None and arguments.data is None:
        raise InputError("--image-size is for --data; a run has its own: leave it out")
    from orat import subjects

    if arguments.model is None:
        which = arguments.weights or "last"
        return subjects.of_run(Path(arguments.run), which, data_dir, examples, arguments.device)
    weights = read(arguments, "weights", Path)
    return subjects.of_function(
        arguments.model, weights, arguments.data, data_dir, image_size, examples, arguments.device
    )


def plan_of(arguments: Namespace, subject: Subject) -> Plan:
    """How it is to be examined."""
    from orat.examination import Plan

    return Plan(
        eps=read(arguments, "eps", number, subject.eps),
        norm=arguments.norm or subject.norm,
        attacks=listed(arguments.attacks),
        seed=read(arguments, "seed", whole, subject.seed),
        precision=arguments.precision,
        batch_size=read(arguments, "batch_size", whole),
        table=read(arguments, "table", Path),
    )


def add_data(commands: Any) -> None:
    """orat data."""
    one = add_command(commands, "data", data, "list and check the data sets that are there, or download one")
    one.add_argument("path", nargs="?", metavar="PATH", help="check only this image folder, .npz or .tar file")
    one.add_argument("--image-size", metavar="HxW", help="resize the folder's images to this")
    one.add_argument("--data-dir", metavar="DIR", help="where data sets lie (default: $ORAT_DATA, else ./data)")
    one.add_argument("--download", metavar="NAME", help="download mnist, cifar10 or cifar100 there")
    one.add_argument("--json", action="store_true", help="print the list as JSON")


def data(arguments: Namespace) -> int:
    """Lists the data sets, after a download if one is wanted."""
    image_size = None if arguments.image_size is None else size(arguments.image_size)
    from orat.listing import download, listing, row, table

    folder = None if arguments.data_dir is None else Path(arguments.data_dir)
    if arguments.download:
        download(arguments.download, folder)
    rows = [row(arguments.path, arguments.path, image_size)] if arguments.path else listing(folder)
    if arguments.json:
        print_json(rows)
        return 0
    from rich.console import Console

    Console(highlight=False).print(table(rows))
    return 0


def add_demo(commands: Any) -> None:
    """orat demo."""
    one = add_command(commands, "demo", demo, "AT and ORAT side by side on bundled data with wrong labels")
    one.add_argument("--out", default="runs/demo", metavar="DIR", help="where the run folders go (default: runs/demo)")
    one.add_argument("--seed", default="0", help="seed of the wrong labels and of the training (default: 0)")
    one.add_argument("--epochs", help="fewer for a quick look; AT needs some twenty to learn the wrong labels")
    one.add_argument("--json", action="store_true", help="print the results as JSON")


def demo(arguments: Namespace) -> int:
    """Runs the demo and shows it."""
    seed = whole(arguments.seed)
    epochs = None if arguments.epochs is None else whole(arguments.epochs)
    from orat import demo as side_by_side

    results = side_by_side.demo(Path(arguments.out), seed, epochs)
    if arguments.json:
        print_json(results)
        return 0
    side_by_side.show(results)
    return 0


def read(arguments: Namespace, name: str, reader: Callable[[str], Any], default: Any = None) -> Any:
    """The value of a flag, read from its text."""
    text = getattr(arguments, name)
    try:
        return default if text is None else reader(text)
    except InputError as error:
        raise InputError(f"--{name.replace('_', '-')}: {error}") from None


def listed(text: str | None) -> tuple[str, ...]:
    """Names with commas between; none of nothing."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def say(text: str) -> None:
    """For people, on standard output."""
    sys.stdout.write(text + "\n")


def print_json(content: Any) -> None:
    """For machines, on standard output."""
    sys.stdout.write(json.dumps(content) + "\n")
