"""A network of your own: from a function, trained with ORAT on digits, and its weights back in plain torch.

On the command line: orat train --data sample --method orat --model examples/own_network.py:make
"""

import safetensors.torch
import torch
from torch import nn

import orat


def make(classes: int, channels: int, width: int = 8) -> nn.Module:
    """The data fill `classes` and `channels`; weights are drawn from the run's seed."""
    body = nn.Sequential(nn.Conv2d(channels, width, 5, stride=2), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.1))
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * width, classes))


if __name__ == "__main__":
    run = orat.Run(data="sample", method=orat.methods.ORAT(m=0.1), epochs=2, attack_steps=2)
    print(orat.train(run, "runs/own-network", model=make)["last"])
    net = make(classes=10, channels=1).eval()
    net.load_state_dict(safetensors.torch.load_file("runs/own-network/model.safetensors"))
    x = torch.rand(3, 1, 28, 28)
    print(torch.allclose(net(x), orat.load_model("runs/own-network", model=make)(x), atol=1e-5))
