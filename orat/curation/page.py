"""Label issues -> one self-contained HTML page: the images most likely wrong, the classes and the noise matrix."""

from __future__ import annotations

from itertools import islice
from typing import Any

from jinja2 import Environment, PackageLoader
from torch import Tensor

from orat.curation.issues import LabelIssues
from orat.curation.page_rows import suspicious
from orat.curation.tables import headlines
from orat.data.pictures import drawable, image_of, picture
from orat.data.source import Source

MOST_CLASSES = 30  # of a matrix on the page
FAINTEST = 0.05  # share at which a cell is colored fully if no share is larger
STRONGEST = 0.6  # opacity of a fully colored cell
SMALLEST = 0.0005  # share below which a cell is blank


def page(found: LabelIssues, title: str, top: int = 100) -> str:
    """The page of a run with this title and number of images."""
    templates = Environment(loader=PackageLoader("orat.curation", ""), autoescape=True, trim_blocks=True)
    classes, samples = found.names, found.samples
    has_pictures = samples is not None and drawable(samples.shape)
    return templates.get_template("page.html").render(
        title=title,
        headlines=headlines(found),
        notes=found.notes(),
        unreliable=found.refusal,
        rows=found.classes(),
        classes=classes,
        heat=heat(found.verdict.noise_matrix) if len(classes) <= MOST_CLASSES else None,
        shape=None if samples is None else samples.shape,
        figures=figures(found, samples, top) if samples is not None and has_pictures else None,
        listed=None if has_pictures else suspicious(found, top),
    )


def heat(matrix: Tensor) -> list[list[dict[str, Any]]]:
    """The cells of the noise matrix in percent, wrong labels colored by their share."""
    most = max(FAINTEST, float(matrix.clone().fill_diagonal_(0).max()))
    colored = STRONGEST * matrix.clone().fill_diagonal_(0) / most
    return [
        [
            {"text": f"{100 * share:.1f}" if share >= SMALLEST else "", "strength": f"{strength:.3f}"}
            for share, strength in zip(*row, strict=True)
        ]
        for row in zip(matrix.tolist(), colored.tolist(), strict=True)
    ]


def figures(found: LabelIssues, samples: Source, top: int) -> list[dict[str, Any]]:
    """The images most likely wrong, with their labels."""
    classes, true_labels, other = found.names, found.true_labels, found.other
    places = found.order[:top].tolist()
    return [
        {
            "rank": row["rank"],
            "name": row["path"] or row["index"],
            "given": row["given_label"],
            "other": classes[int(other[place])],
            "p_wrong": 1 - row["label_quality"],
            "flagged": row["is_label_issue"],
            "truth": None if true_labels is None else classes[int(true_labels[place])],
            **picture(image_of(pixels)),
        }
        for place, row, pixels in zip(places, islice(found, top), samples.__getitems__(places), strict=True)
    ]
