"""AT, ORAT and ORAT that is told m on the bundled data with wrong labels: what the package is for, in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from orat.cli.tables import outlier_line, print_accuracy, shares
from orat.core.console import Display
from orat.methods import AT, ORAT, Method
from orat.training.run import Run
from orat.training.train import train

NOISE_RATE = 0.3
METHODS: dict[str, Method] = {"AT": AT(), "ORAT": ORAT(), "ORAT-m": ORAT(m=NOISE_RATE)}  # told nothing; told m


def demo(out: Path, seed: int = 0, epochs: int | None = None, display: Display | None = None) -> dict[str, Any]:
    """Trains all in folders under `out`, and returns their results by name."""
    display = display or Display()
    common: dict[str, Any] = {"noise": "symmetric", "noise_rate": NOISE_RATE, "noise_seed": seed, "seed": seed}
    if epochs is not None:
        common["epochs"] = epochs
    results = {}
    for name, method in METHODS.items():
        run = Run(data="sample", method=method, **common)
        folder = out / f"{name.lower()}-seed{seed}"
        results[name] = train(run, folder, device="cpu", display=display) | {"folder": str(folder)}
    return results


def show(results: dict[str, Any]) -> None:
    """The results as a table, what either ORAT cut, and where the folders are."""
    first = next(iter(results.values()))
    rows = {name: shares(result["last"]) for name, result in results.items()}
    title = f"MNIST sample, {NOISE_RATE:.0%} of the training labels wrong, last epoch"
    print_accuracy(title, rows, first["eps"], first["norm"], first["examples"])
    console = Console(highlight=False, soft_wrap=True)
    told = {"ORAT": "told nothing", "ORAT-m": f"told that {NOISE_RATE:.0%} are wrong"}
    for name, words in told.items():
        console.print(f"{name} ({words}): {outlier_line(results[name]['outliers'])}")
    for name, result in results.items():
        console.print(f"{name:<6} {result['folder']}")
