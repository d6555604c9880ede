"""Content of a data set -> one self-contained HTML page: a few images of each class, and files that need a look."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader

from orat.data.inspection import THUMBNAIL, Inspection
from orat.data.pictures import picture

SHOWN = 96  # pixels of the longer side on the page
LISTED = 1000  # files in a list


def contact_sheet(found: Inspection, title: str) -> str:
    """The page of a data set with this title."""
    templates = Environment(loader=PackageLoader("orat.data", ""), autoescape=True, trim_blocks=True)
    figures = {name: [picture(one, SHOWN, THUMBNAIL) for one in own] for name, own in found.pictures.items()}
    lists = {
        "Images that cannot be read": list(found.broken.values()),
        "Images that are there more than once": [repeat.words for repeat in found.repeats],
        "Files that are skipped": list(found.skipped),
    }
    return templates.get_template("contact_sheet.html").render(
        title=title,
        shape=found.shape,
        notes=found.notes,
        total=found.total,
        rows=found.rows(),
        figures=figures,
        lists={heading: lines for heading, lines in lists.items() if lines},
        listed=LISTED,
    )
