"""`orat evaluate`: accuracy under attack, of a run or of a network from elsewhere."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.cli.cards import lines
from orat.cli.flags import add_command, add_places, listed, read
from orat.cli.tables import print_curve, print_json, print_report, say
from orat.core.domain import size
from orat.core.errors import InputError
from orat.core.options import in_pixels, number, whole
from orat.core.plots import radius_label
from orat.core.registry import IN_MEMORY, check_trust, names_code
from orat.training.defaults import defaults_for
from orat.training.run import Run, read_run

if TYPE_CHECKING:
    from torch import nn

    from orat.attacks.threat import Threat
    from orat.data.source import Dataset, Splits
    from orat.evaluation.report import Plan

TEST_PART = "add a folder test/, a column split, arrays x_test and y_test, or give a pair (train, test)"
VALIDATION = (
    "the data have no test part, so these are the validation samples of the run: the chosen epoch was chosen by them, "
    "and their labels are as noisy as those of the training"
)
EVALUATIONS = Path("runs") / "evaluations"  # of networks without a run folder


def add(commands: Any) -> None:
    """Declares the flags: the network, the images and the attacks."""
    text = "accuracy of a run, or of a network from elsewhere, under attack; the same command again goes on"
    one = add_command(commands, "evaluate", run, text, goes_on=True)
    names = ", ".join(("pgdN", "pgdNxR (N steps, R restarts)", *lines("attacks")))
    one.add_argument("run", nargs="?", metavar="RUN", help="the run's folder")
    one.add_argument("--attacks", default="fgsm,pgd20,cw", metavar="NAMES", help=f"with commas between: {names}")
    one.add_argument("--eps", help="radius, such as 8/255 (default: the run's; without RUN there is none)")
    one.add_argument("--norm", help="norm: linf, l2 or l1 (default: the run's, else linf)")
    one.add_argument("--examples", metavar="N", help="only the first N test samples (of a folder: N of all classes)")
    one.add_argument("--weights", help="of a run: last or chosen epoch (default: last); with --model: a file")
    one.add_argument(
        "--model", metavar="MODULE:FUNCTION", help="function that returns a torch module: instead of RUN, or the run's"
    )
    one.add_argument("--data", help="with --model: the data set, as in `orat train`; of a run: its code or memory")
    one.add_argument("--trust", action="store_true", help="run the code that the run names as its network or data")
    one.add_argument("--image-size", metavar="HxW", help="without RUN: resize the folder's images to this")
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
    if subject.part == "validation":
        report["warnings"].insert(0, VALIDATION)
    if arguments.json:
        print_json(report | {"folder": str(folder), "part": subject.part} | ({"curves": drawn} if drawn else {}))
        return 0
    print_report(arguments.run or arguments.model, report)
    for curve in drawn:
        print_curve(curve)
    say(f"report, samples{' and curves' if drawn else ''}: {folder}")
    return 0


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, its test samples, the default threat, and the folder of its reports."""

    model: nn.Module
    test: Dataset
    threat: Threat
    seed: int
    reports: Path
    part: str = "test"  # of the data


def subject_of(arguments: Namespace) -> Subject:
    """The network that the flags name."""
    if arguments.run is None and arguments.model is None:
        raise InputError("give a run's folder, or --model package.module:function with --data")
    if arguments.run is None and arguments.data is None:
        raise InputError("--model without --data: name the data set to test on, such as --data cifar10")
    if arguments.run is not None and arguments.image_size is not None:
        raise InputError("--image-size is for --model with --data; a run has its own size: leave it out")
    examples = read(arguments, "examples", whole)
    if examples is not None and examples < 1:
        raise InputError(f"examples = {examples}: give 1 or more")
    return of_function(arguments) if arguments.run is None else of_run(arguments, read_run(Path(arguments.run)))


def of_run(arguments: Namespace, run: Run) -> Subject:
    """The network of a finished run, and the test samples of its data set."""
    from orat.core.device import choose_device
    from orat.training.load import load_model
    from orat.training.setup import read_data

    for what in ("model", "data"):
        check_named(getattr(run, what), what, getattr(arguments, what), arguments.trust)
    folder, device = Path(arguments.run), choose_device(arguments.device)
    model = load_model(folder, arguments.weights or "last", arguments.device, arguments.model, arguments.trust)
    run, splits = read_data(replace(run, data=arguments.data or run.data), read(arguments, "data_dir", Path), device)
    test, part = tested(run, splits)
    examples = read(arguments, "examples", whole)
    test = test if examples is None else test.first(examples)
    return Subject(model, test, run.threat_in(test.domain), run.seed, folder / "evaluations", part)


def tested(run: Run, splits: Splits) -> tuple[Dataset, str]:
    """The test part of the data of a run, or where there is none the validation part, and its name."""
    from orat.training.setup import prepare

    if splits.test is not None:
        return splits.test, "test"
    held_out = prepare(run, splits=splits).validation
    if held_out is None:
        raise InputError(
            f"{run.data} has no test part, and the run held out no samples: add a folder test/ beside train/, or train "
            "with --validation 0.1"
        )
    return held_out, "validation"


def check_named(recorded: str, what: str, given: str | None, trust: bool) -> None:
    """Refuses a part of a run that this command must name, and a name for a part that the run has itself."""
    is_gone = recorded.startswith(IN_MEMORY)
    if given is None and is_gone:
        raise InputError(f"the {what} of the run was {recorded}: name it as code, as in --{what} package.module:name")
    if given is None:
        check_trust(recorded, what, trust)
    elif not (is_gone or names_code(recorded)):
        raise InputError(f"the {what} of the run is {recorded}: leave --{what} {given} out, or leave out the run")


def of_function(arguments: Namespace) -> Subject:
    """The network that package.module:function returns, in evaluation mode, and the test samples of a data set."""
    from orat.attacks.threat import Threat
    from orat.core.device import choose_device
    from orat.models.external import load_external

    if arguments.eps is None:
        usual = defaults_for(arguments.data).get("eps", 8 / 255)
        example = f"--eps {radius_label(usual, in_pixels(usual, 'linf'))}"
        raise InputError(f"--eps is missing: give the radius of the attacks, such as {example} for {arguments.data}")
    threat = Threat(read(arguments, "eps", number), arguments.norm or "linf")
    places = read(arguments, "data_dir", Path), read(arguments, "image_size", size)
    test = first_test_images(arguments.data, *places, read(arguments, "examples", whole))
    bounds = test.domain
    weights, device = read(arguments, "weights", Path), choose_device(arguments.device)
    model = load_external(arguments.model, weights, device, test.shape, len(test.classes))
    return Subject(model, test, replace(threat, low=bounds.low, high=bounds.high, scale=bounds.scale), 0, EVALUATIONS)


def first_test_images(
    name: str,
    data_dir: Path | None,
    image_size: tuple[int, int] | None,
    examples: int | None,
    **columns: Any,
) -> Dataset:
    """The first test samples of a data set."""
    from orat.data.catalog import load

    return first_of_test(load(name, data_dir, image_size), name, examples)


def first_of_test(splits: Splits, name: str, examples: int | None) -> Dataset:
    """The first samples of the test part."""
    if splits.test is None:
        raise InputError(f"the data set {name} has no test part, which is attacked: {TEST_PART}")
    return splits.test if examples is None else splits.test.first(examples)


def plan_of(arguments: Namespace, subject: Subject) -> Plan:
    """The attacks that the flags ask for."""
    from orat.evaluation.report import Plan

    threat, seed = subject.threat, subject.seed
    radius: float = read(arguments, "eps", number, threat.eps)
    return Plan(
        replace(threat, eps=radius, norm=arguments.norm or threat.norm),
        attacks=listed(arguments.attacks),
        seed=read(arguments, "seed", whole, seed),
        precision=arguments.precision,
        batch_size=read(arguments, "batch_size", whole),
        table=read(arguments, "table", Path),
    )
