"""Your own data: a torch data set with labels as words.

On the command line: orat train --data examples/own_data.py:Squares --method at
"""

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


if __name__ == "__main__":
    orat.train(orat.Run(data=Squares(), method=orat.methods.AT(), epochs=8), "runs/own-data")
    model = orat.load_model("runs/own-data")
    print(orat.evaluate(model, orat.load_data(Squares()).train, ["pgd20"], "8/255"))
