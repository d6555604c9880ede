"""Your own table: numbers and text in a CSV file, trained with ORAT (automatic), and attacked with other radii."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import orat

random = np.random.default_rng(0)
width, weight = random.normal(30, 5, 600), random.normal(2e4, 4e3, 600)
fits = np.where(width - weight / 1e3 > 10, "yes", "no")  # the color says nothing
rows = [f"{w:.1f},{g:.0f},{('red', 'blue')[n % 2]},{fits[n]}" for n, (w, g) in enumerate(np.stack([width, weight], 1))]

with tempfile.TemporaryDirectory() as folder:
    file, out = Path(folder) / "parts.csv", Path(folder) / "run"
    file.write_text("\n".join(["width,weight,color,fits", *rows]))
    run = orat.Run(data=str(file), target="fits", method=orat.methods.ORAT(), eps=0.2, epochs=10)
    print(orat.train(run, out)["last"])
    test, model = orat.load_data(str(file), target="fits").test, orat.load_model(out)
    for eps in (0.1, 0.2, 0.4):  # standard deviations of each column
        threat = replace(run.threat_in(test.domain), eps=eps)
        print(f"eps {eps}: {orat.evaluate(model, test, ['pgd20'], threat)}")
