"""Adds the runs in reports of `orat paper reproduce`, made anywhere, to the reports in results/ that the pages read.

    python experiments/merge_reports.py out/table1-cifar10.json out/table1-cifar100.json
    python experiments/reproduced_page.py > docs/reproduced.md

Each table has a report for each data set. Present runs are not replaced.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markdown import grouped

from orat.core.errors import InputError
from orat.core.files import replace_file
from orat_paper.reproduce.artifacts import AUTOMATIC, MEASURED, PROTOCOLS, Artifact, artifact, beside_orat
from orat_paper.reproduce.comparison import compare, content
from orat_paper.reproduce.reports import Identity, read_reports
from orat_paper.reproduce.settings import Places, Trial, trial_of

RESULTS = Path(__file__).parents[1] / "results"
FORMS = (AUTOMATIC, MEASURED)


def main() -> None:
    """Merges, with a line on every report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path, nargs="+")
    merge(parser.parse_args().reports)


def merge(files: Sequence[Path]) -> None:
    """Adds the runs of these reports to the reports of their tables and data sets."""
    read_reports(files)  # refuses other files
    found = (
        (report["name"], run["data"], file) for file in files for report in (read(file),) for run in report["runs"]
    )
    for (name, data), own in grouped(dict.fromkeys(found), lambda one: one[:2]):
        target, wanted = report_of(name, data), artifact(name)
        present = [target] if target.is_file() else []
        trials = trials_beside(wanted, data, read_reports([*present, *(file for _, _, file in own)]))
        write_report(target, wanted, trials)
        print(f"{target}: {sum(bool(trial.reported) for trial in trials)} runs")


def trials_beside(wanted: Artifact, data: str, known: dict[Identity, Any]) -> list[Trial]:
    """Every trial of a data set at the radii, protocols, seeds and with the forms of ORAT of known runs."""
    own = [identity for identity in known if identity.cell.data == data]
    forms = [form for form in FORMS if any(one.cell.method == form for one in own)]
    places, radii = Places(Path("nowhere"), reported=known), {one.cell.eps for one in own}
    trials = [
        trial_of(wanted, cell, protocol, seed, places)
        for protocol in PROTOCOLS
        if any(one.protocol == protocol for one in own)
        for cell in beside_orat(wanted.cells, forms)
        if cell.data == data and cell.eps in radii
        for seed in sorted({*wanted.seeds, *(one.seed for one in own)})
    ]
    if sum(bool(trial.reported) for trial in trials) < len(own):
        names = ", ".join(dict.fromkeys(f"{one.data}, {one.epochs} epochs" for one in own))
        raise InputError(f"some runs of {wanted.name} ({names}) are of no cell on {data}: leave them out")
    return trials


def report_of(name: str, data: str) -> Path:
    """The report of a table on a data set: the present one, or a new one."""
    for file in RESULTS.glob(f"reproduce-{name}*.json"):
        report = read(file)
        if report["name"] == name and {row["data"] for row in report["rows"]} == {data}:
            return file
    return RESULTS / f"reproduce-{name}-{data}.json"


def read(file: Path) -> dict[str, Any]:
    """A report."""
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def write_report(file: Path, wanted: Artifact, trials: Sequence[Trial]) -> None:
    """The report of some trials, as `orat paper reproduce` writes it."""
    report = content(wanted, trials, compare(wanted, trials)) | {"errors": {}}
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    main()
