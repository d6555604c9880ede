"""`orat evaluate`: accuracy under attack, of a run or of a network from elsewhere."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.cards import lines
from orat.cli.flags import add_command, add_places, listed, read
from orat.cli.tables import print_curve, print_json, print_report, say
from orat.core.errors import InputError
from orat.core.options import number, size, whole
from orat.training.defaults import defaults_for
from orat.training.run import read_run

if TYPE_CHECKING:
    from torch import nn

    from orat.attacks.threat import Threat
    from orat.data.source import Dataset
    from orat.evaluation.report import Plan

EVALUATIONS = Path("runs") / "evaluations"  # of networks without a run folder


def add(commands: Any) -> None:
    """Declares the flags: the network, the images and the attacks."""
    text = "accuracy of a run, or of a network from elsewhere, under attack; the same command again goes on"
    one = add_command(commands, "evaluate", run, text, goes_on=True)
    names = ", ".join(("pgdN", "pgdNxR (N steps, R restarts)", *lines("attacks")))
    one.add_argument("run", nargs="?", metavar="RUN", help="the run's folder")
    one.add_argument("--attacks", default="fgsm,pgd20,cw", metavar="NAMES", help=f"with commas between: {names}")
    one.add_argument("--eps", help="radius (default: the run's), such as 8/255")
    one.add_argument("--norm", help="norm (default: the run's): linf, l2 or l1")
    one.add_argument("--examples", metavar="N", help="only the first N test images (of a folder: N of all classes)")
    one.add_argument("--weights", help="of a run: last or chosen epoch (default: last); with --model: a file")
    one.add_argument("--model", metavar="MODULE:FUNCTION", help="function that returns a torch module, instead of RUN")
    one.add_argument("--data", help="with --model: the data set, as in `orat train`")
    one.add_argument("--image-size", metavar="HxW", help="with --data: resize the folder's images to this")
    one.add_argument("--seed", help="seed of the attacks (default: the run's)")
    one.add_argument("--precision", default="auto", help="of the attacks: auto, half, float32 (default: auto)")
    one.add_argument("--batch-size", metavar="N", help="samples at a time; does not change the result")
    one.add_argument("--curves", nargs="?", const="eps,steps", metavar="eps,steps", help="also accuracy against these")
    one.add_argument("--table", metavar="FILE", help="write the attack that broke each image, as .csv or .parquet")
    one.add_argument("--out", metavar="DIR", help="folder of the reports (default: a folder in the run's)")
    one.add_argument("--again", action="store_true", help="start over instead of going on")
    add_places(one)


def run(arguments: Namespace) -> int:
    """Evaluates the network, draws curves if asked for, and prints the report."""
    from orat.attacks.suite import check_names
    from orat.core.console import Display
    from orat.evaluation.curves import check_curves, write_curves
    from orat.evaluation.report import examine, report_folder

    if not listed(arguments.attacks):
        raise InputError("--attacks names no attack: give pgd20,autoattack or others")
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


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, its test images, the default threat, and the folder of its reports."""

    model: nn.Module
    test: Dataset
    threat: Threat
    seed: int
    reports: Path


def subject_of(arguments: Namespace) -> Subject:
    """The network that the flags name."""
    data_dir = read(arguments, "data_dir", Path)
    examples = read(arguments, "examples", whole)
    image_size = read(arguments, "image_size", size)
    if (arguments.run is None) == (arguments.model is None):
        raise InputError("give either a run's folder, or --model package.module:function with --data")
    if (arguments.model is None) != (arguments.data is None):
        raise InputError("--model and --data go together: the network, and the data set to test it on")
    if arguments.image_size is not None and arguments.data is None:
        raise InputError("--image-size is for --data; a run has its own size: leave it out")
    if arguments.model is None:
        which = arguments.weights or "last"
        return of_run(Path(arguments.run), which, data_dir, examples, arguments.device)
    weights = read(arguments, "weights", Path)
    return of_function(arguments.model, weights, arguments.data, data_dir, image_size, examples, arguments.device)


def of_run(
    folder: Path, weights: str = "last", data_dir: Path | None = None, examples: int | None = None, device: str = "auto"
) -> Subject:
    """The network of a finished run and the test images of its data set."""
    from orat.training.load import load_model

    run = read_run(folder)
    model = load_model(folder, weights, device)
    columns = {"target": run.target, "bounds": run.bounds, "frozen": run.frozen}
    test = first_test_images(run.data, data_dir, run.image_size, examples, **columns)
    return Subject(model, test, run.threat_in(test.domain), run.seed, folder / "evaluations")


def of_function(
    function: str,
    weights: Path | None,
    data: str,
    data_dir: Path | None = None,
    image_size: tuple[int, int] | None = None,
    examples: int | None = None,
    device: str = "auto",
) -> Subject:
    """The network that package.module:function returns, [0, 1] in, logits out, and the test images of a data set."""
    from orat.attacks.threat import Threat
    from orat.core.device import choose_device
    from orat.models.external import load_external

    test = first_test_images(data, data_dir, image_size, examples)
    model = load_external(function, weights, choose_device(device))
    return Subject(model, test, Threat(defaults_for(data).get("eps", 8 / 255)), 0, EVALUATIONS)


def first_test_images(
    name: str,
    data_dir: Path | None,
    image_size: tuple[int, int] | None,
    examples: int | None,
    **columns: Any,
) -> Dataset:
    """The first test images of a data set."""
    from orat.data.catalog import load

    if examples is not None and examples < 1:
        raise InputError(f"examples = {examples}: give 1 or more")
    test = load(name, data_dir, image_size, **columns).test
    if test is None:
        raise InputError(f"the data set {name} has no test part: add a folder test/ beside train/")
    return test if examples is None else test.first(examples)


def plan_of(arguments: Namespace, subject: Subject) -> Plan:
    """The attacks that the flags ask for."""
    from orat.evaluation.report import Plan

    threat, norm = subject.threat, arguments.norm or subject.threat.norm
    return Plan(
        replace(threat, eps=read(arguments, "eps", number, threat.eps), norm=norm),
        attacks=listed(arguments.attacks),
        seed=read(arguments, "seed", whole, subject.seed),
        precision=arguments.precision,
        batch_size=read(arguments, "batch_size", whole),
        table=read(arguments, "table", Path),
    )
