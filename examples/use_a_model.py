"""A finished model in use: new pictures are classified, and predictions that an attack could change are marked."""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

import orat

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    run = orat.Run(data="sample", method=orat.methods.AT(), model="mlp-32", epochs=3, attack_steps=2)
    orat.train(run, folder / "run")

    (folder / "new").mkdir()
    for i, pixels in enumerate(orat.load_data("sample").test.images[:12, 0].numpy()):
        Image.fromarray(pixels).resize((60, 60)).save(folder / "new" / f"{i}.png")  # any size and any image format

    found = orat.predict(folder / "run", folder / "new", certain="pgd20")
    for row in found:
        print(f"{Path(row['path']).name}: {row['class']} ({row['confidence']:.0%}), certain: {row['certain']}")
    found.write(folder / "predictions.csv")
