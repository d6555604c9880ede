"""Label issues as lines and as tables in files."""

from __future__ import annotations

from pathlib import Path

from orat.core.files import write_table
from orat.curation.issues import LabelIssues


def headlines(found: LabelIssues) -> list[str]:
    """The estimated noise and the flags, or why there are none; with true labels, also precision, recall and AUC."""
    if found.refusal is not None:
        return [found.refusal]
    summary = found.summary()
    lines = [
        f"{summary['noise_rate']:.1%} (± {summary['error']:.1%}) of the {len(found):,} labels are estimated to be "
        f"wrong; {summary['issues']:,} samples are flagged (is_label_issue)."
    ]
    truth = summary["truth"]
    if truth is not None:
        shown = {name: "-" if truth[name] is None else f"{truth[name]:.1%}" for name in ("precision", "recall")}
        auc = "-" if truth["auc"] is None else f"{truth['auc']:.4f}"
        lines.append(
            f"The true labels are known: {truth['wrong']:,} labels ({truth['wrong_share']:.1%}) are wrong; "
            f"precision {shown['precision']}, recall {shown['recall']}, AUC {auc}."
        )
    return lines


def write_tables(found: LabelIssues, folder: Path, ending: str = "csv") -> list[Path]:
    """Writes the samples (.csv or .parquet), the classes and the noise matrix, and returns the files."""
    classes = found.classes()
    tables = {
        folder / f"label-issues.{ending}": found.columns(),
        folder / "classes.csv": {name: [row[name] for row in classes] for name in classes[0]},
        folder / "matrix.csv": found.matrix(),
    }
    for path, columns in tables.items():
        write_table(path, columns)
    return list(tables)
