"""The names that the command line offers, free of torch so that `orat --help` answers at once."""

from __future__ import annotations

# Any wrn-DEPTH-WIDTH and any mlp-HIDDEN-HIDDEN-... can be built; those of the paper are listed.
MODELS = (
    "lenet",
    "small_cnn",
    "demo_cnn",
    "resnet18",
    "resnet34",
    "wrn-32-10",
    "mlp-3",
    "mlp-20-20-20",
    "mlp-64",
)

NOISES = ("none", "symmetric", "asymmetric", "asymmetric-authors")
