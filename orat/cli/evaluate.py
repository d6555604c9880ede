"""`orat evaluate`: accuracy of a run, or of anybody's model, under attack."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.arguments import add_command, add_places, listed, read
from orat.cli.output import print_json, say
from orat.core.errors import InputError
from orat.core.numbers import number, size, whole

if TYPE_CHECKING:
    from orat.cli.subjects import Subject
    from orat.evaluation.report import Plan

ATTACKS = (
    "fgsm, pgd20, cw (as in the paper), fgsm-plain, pgd20-madry, cw-margin, pgdN or pgdNxR (N steps, R restarts), "
    "cw-l2, apgd-ce, apgd-dlr, apgd-t, fab-t, square, autoattack, autoattack-reference"
)


def add(commands: Any) -> None:
    """The flags: whose model, on what, and under which attacks."""
    text = "accuracy of a finished run, or of anybody's model, under attack; the same command again goes on"
    one = add_command(commands, "evaluate", run, text, goes_on=True)
    one.add_argument("run", nargs="?", metavar="RUN", help="the run's folder")
    one.add_argument("--attacks", default="fgsm,pgd20,cw", metavar="NAMES", help=f"with commas between: {ATTACKS}")
    one.add_argument("--eps", help="another radius than the run's, such as 8/255")
    one.add_argument("--norm", help="another norm than the run's: linf, l2 or l1")
    one.add_argument("--examples", metavar="N", help="only the first N test images (of a folder: N of all classes)")
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


def run(arguments: Namespace) -> int:
    """Examines a model, and draws its curves if they are wanted."""
    from orat.attacks.suite import check_names
    from orat.cli.tables import print_curve, print_report
    from orat.core.console import Display
    from orat.evaluation.curves import check_curves, write_curves
    from orat.evaluation.report import examine, report_folder

    if not listed(arguments.attacks):
        raise InputError("--attacks names none: give pgd20,autoattack or others")
    check_names(listed(arguments.attacks))
    subject = subject_of(arguments)
    plan = plan_of(arguments, subject)
    check_curves(curves := listed(arguments.curves), plan.threat)
    folder = Path(arguments.out) if arguments.out else report_folder(subject.reports, subject.model, subject.test, plan)
    report = examine(subject.model, subject.test, plan, folder, Display(), arguments.again)
    drawn = write_curves(curves, subject.model, subject.test, plan.threat, plan.seed, folder, Display())
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
    from orat.cli import subjects

    if arguments.model is None:
        which = arguments.weights or "last"
        return subjects.of_run(Path(arguments.run), which, data_dir, examples, arguments.device)
    weights = read(arguments, "weights", Path)
    return subjects.of_function(
        arguments.model, weights, arguments.data, data_dir, image_size, examples, arguments.device
    )


def plan_of(arguments: Namespace, subject: Subject) -> Plan:
    """How it is to be examined."""
    from orat.attacks.threat import Threat
    from orat.evaluation.report import Plan

    return Plan(
        Threat(read(arguments, "eps", number, subject.eps), arguments.norm or subject.norm),
        attacks=listed(arguments.attacks),
        seed=read(arguments, "seed", whole, subject.seed),
        precision=arguments.precision,
        batch_size=read(arguments, "batch_size", whole),
        table=read(arguments, "table", Path),
    )
