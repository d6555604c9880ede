"""Your own data: a torch data set with labels as words, handed to a training as it is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset

import orat


class Squares(Dataset):
    """Dark noise; images named "bright" have a bright square."""

    def __len__(self) -> int:
        return 300

    def __getitem__(self, place: int) -> tuple[torch.Tensor, str]:
        image = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(place)) / 2
        image[:, 4:12, 4:12] += 0.4 * (place % 2)
        return image, ("plain", "bright")[place % 2]


run = orat.Run(data=Squares(), method=orat.methods.AT(), epochs=3, eps=8 / 255)
with tempfile.TemporaryDirectory() as folder:
    orat.train(run, Path(folder) / "run")
    print(
        orat.load_model(Path(folder) / "run")(torch.rand(2, 1, 16, 16)).shape, orat.load_data(Squares()).train.classes
    )
