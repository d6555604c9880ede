"""`orat demo`: AT, ORAT (automatic) and ORAT with m on the bundled data with wrong labels."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from orat.cli.flags import add_command, read
from orat.cli.tables import decision_lines, print_accuracy, print_json, say, shares
from orat.core.options import whole

NOISE_RATE = 0.3
TITLES = {"AT": "AT", "ORAT": "ORAT (automatic)", "ORAT-m": f"ORAT with m = {NOISE_RATE}"}


def add(commands: Any) -> None:
    """Declares the flags: seed, epochs and folder."""
    text = "AT and ORAT side by side on bundled data with wrong labels"
    one = add_command(commands, "demo", run, text, goes_on=True)
    one.add_argument("--out", default="runs/demo", metavar="DIR", help="folder of the runs (default: runs/demo)")
    one.add_argument("--seed", default="0", help="seed of the wrong labels and of the training (default: 0)")
    one.add_argument("--epochs", metavar="N", help="fewer for a quick look; AT memorizes wrong labels in about twenty")
    one.add_argument("--json", action="store_true", help="print the results as JSON")


def run(arguments: Namespace) -> int:
    """Trains the three methods and prints their results."""
    results = demo(Path(arguments.out), read(arguments, "seed", whole), read(arguments, "epochs", whole))
    if arguments.json:
        print_json(results)
    else:
        show(results)
    return 0


def demo(out: Path, seed: int, epochs: int | None) -> dict[str, Any]:
    """Trains the three methods in folders under `out`, and returns their results by name."""
    from orat.core.console import Display
    from orat.methods import AT, ORAT
    from orat.training.run import Run
    from orat.training.train import train

    common: dict[str, Any] = {"noise": "symmetric", "noise_rate": NOISE_RATE, "noise_seed": seed, "seed": seed}
    if epochs is not None:
        common["epochs"] = epochs
    results = {}
    for name, method in {"AT": AT(), "ORAT": ORAT(), "ORAT-m": ORAT(m=NOISE_RATE)}.items():
        folder = out / f"{name.lower()}-seed{seed}"
        result = train(Run(data="sample", method=method, **common), folder, device="cpu", display=Display())
        results[name] = result | {"folder": str(folder)}
    return results


def show(results: dict[str, Any]) -> None:
    """Prints the accuracy, the samples that ORAT removed, and the folders."""
    first = results["AT"]
    rows = {TITLES[name]: shares(result["last"]) for name, result in results.items()}
    title = f"MNIST sample, {NOISE_RATE:.0%} of the training labels wrong, last epoch"
    print_accuracy(title, rows, first)
    for name in ("ORAT", "ORAT-m"):
        for line in decision_lines(results[name]):
            say(f"{TITLES[name]}: {line}")
    for name, result in results.items():
        say(f"{TITLES[name]:<20} {result['folder']}")
