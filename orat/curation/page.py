"""Suspects -> one HTML page that needs nothing besides itself: the most suspicious images, classes and the matrix."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from orat.curation.find import Suspects, headlines

SHOWN = 128  # pixels of the longer side on the page
LARGEST = 256  # pixels of the longer side in the file
MOST_CLASSES = 30  # of a matrix that can be read

STYLE = """
:root { color-scheme: light dark; --line: #8885; --dim: #666; --heat: 214, 69, 24; --card: #8881; }
@media (prefers-color-scheme: dark) { :root { --dim: #aaa; --heat: 255, 120, 60; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p { margin: .3rem 0; max-width: 60rem; } .dim { color: var(--dim); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); font-weight: normal; }
thead th { color: var(--dim); } tbody th, th:first-child { text-align: left; }
.heat td { background: rgba(var(--heat), var(--share)); min-width: 2.6rem; }
.heat td, .heat thead th + th { text-align: center; }
.grid { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
figure { margin: 0; padding: .6rem; background: var(--card); border-radius: .4rem; text-align: center; }
figure img { display: block; margin: 0 auto .4rem; } .tiny { image-rendering: pixelated; }
figcaption { font-size: .85rem; line-height: 1.35; overflow-wrap: anywhere; } b { font-weight: 600; }
"""


def page(found: Suspects, title: str, top: int = 100) -> str:
    """The page of a run of this title, with so many images."""
    body = [
        f"<h1>Which labels of {escape(title)} look wrong</h1>",
        *(f"<p>{escape(line)}</p>" for line in headlines(found)),
        *(f'<p class="dim">{escape(line)}</p>' for line in found.notes()),
        "<h2>By class</h2>",
        class_table(found.classes()),
        "<h2>Of those given a class (row), the share that seems to be of each (column), in %</h2>",
        matrix_table(found.verdict.noise_matrix, found.train.classes),
        *grid(found, top),
    ]
    head = f'<meta charset="utf-8"><title>Suspects of {escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}{view}<style>{STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def class_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row a class."""
    titles = ("class", "given", "seem wrong", "share", "most often", "issues")
    head = "".join(f"<th>{title}</th>" for title in titles)
    lines = []
    for row in rows:
        wrong, share = f"{row['estimated_wrong']:,}", f"{row['estimated_share']:.1%}"
        cells = (f"{row['given']:,}", wrong, share, escape(row["confused_with"]) or "-", f"{row['issues']:,}")
        lines.append(f"<tr><th>{escape(row['class'])}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    body = "\n".join(lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def matrix_table(matrix: Tensor, classes: Sequence[str]) -> str:
    """The matrix as colored cells: the share of wrong ones by strength, that of right ones plain."""
    if len(classes) > MOST_CLASSES:
        return f"<p>{len(classes)} classes are too many for a page: see matrix.csv.</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in classes)
    most = max(0.05, float(matrix.clone().fill_diagonal_(0).max()))
    lines = []
    for label, shares in enumerate(matrix.tolist()):
        cells = "".join(heat_cell(share, 0 if label == other else share / most) for other, share in enumerate(shares))
        lines.append(f"<tr><th>{escape(classes[label])}</th>{cells}</tr>")
    body = "\n".join(lines)
    table = f'<table class="heat"><thead><tr><th>given</th>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'
    return f'<div class="wide">{table}</div>'


def heat_cell(share: float, strength: float) -> str:
    """One share in percent, colored by a strength in [0, 1]; a tiny share is left blank."""
    text = f"{100 * share:.1f}" if share >= 0.0005 else ""
    return f'<td style="--share: {0.6 * strength:.3f}">{text}</td>'


def grid(found: Suspects, top: int) -> list[str]:
    """The most suspicious images with what is known of each, or that there are none to see."""
    top = min(top, len(found))
    if not drawable(found.train.images):
        return [f"<p>The data are no images (shape {found.train.shape}), so that there are no pictures.</p>"]
    ranked = zip(found.order[:top].tolist(), islice(found, top), strict=True)
    figures = [figure(found, place, row) for place, row in ranked]
    return [f"<h2>The {top} most suspicious</h2>", '<div class="grid">', *figures, "</div>"]


def figure(found: Suspects, place: int, row: Mapping[str, Any]) -> str:
    """One image and its line."""
    other = found.train.classes[int(found.other[place])]
    lines = [
        f"#{row['rank']} · {escape(row['path'] or str(row['index']))}",
        f"<b>{escape(row['given_label'])} → {escape(other)}</b>",
        f"wrong: {1 - row['label_quality']:.1%}" + ("" if row["is_label_issue"] else " · no issue"),
    ]
    if found.train.truth is not None:
        lines.append(f"in truth {escape(found.train.classes[int(found.train.truth[place])])}")
    return f"<figure>{image(found.train.images[place])}<figcaption>{'<br>'.join(lines)}</figcaption></figure>"


def drawable(images: Tensor) -> bool:
    """Whether these are gray or colored images."""
    return images.dim() == 4 and images.shape[1] in (1, 3)


def image(pixels: Tensor) -> str:
    """An image (channels, height, width) as an element that holds it; a tiny one is shown larger, square by square."""
    whole = pixels if pixels.dtype == torch.uint8 else (255 * pixels).round().to(torch.uint8)
    array = whole.cpu().movedim(0, -1).numpy()
    picture = Image.fromarray(np.ascontiguousarray(array[..., 0] if array.shape[-1] == 1 else array))
    picture.thumbnail((LARGEST, LARGEST))
    raw = io.BytesIO()
    picture.save(raw, "PNG", optimize=True)
    scale = SHOWN / max(picture.size)
    width, height = (max(1, round(scale * side)) for side in picture.size)
    kind = ' class="tiny"' if scale > 1 else ""
    source = f"data:image/png;base64,{b64encode(raw.getvalue()).decode()}"
    return f'<img{kind} width="{width}" height="{height}" alt="" src="{source}">'
