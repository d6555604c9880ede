"""Networks of other people by `orat train`: killed, resumed, evaluated, compared with pyautoattack, and timed.

python benchmarks/own_networks.py --out results/own-networks.json
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import foreign_networks
import torch
from step_speed import WARM_UP, Step, stepper, train_step
from textbook import Textbook
from timing import Machine, in_turn
from torch import nn

import orat
from orat.attacks.reference import AutoAttackReference
from orat.core.device import commit, hardware, versions
from orat.core.random import seeded
from orat.data.loader import as_input, shuffled
from orat.methods import ORAT
from orat.training.engine import Eager, execution
from orat.training.learner import RunLearner
from orat.training.probe import suited
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import Parts, build_model, setting_of

CPU = torch.device("cpu")
NETWORKS = ("ResNet", "VisionTransformer", "Shared")
FILE = Path(foreign_networks.__file__)
EPS = 0.1  # of training and attacks
ROUNDS, STEPS = 5, 3


def main() -> None:
    """Measures all networks and writes the JSON file after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=40, help="images for AutoAttack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    content = {"data": "sample", "seed": arguments.seed, "commit": commit(), **hardware(CPU), **versions(), "rows": []}
    for name in NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            row = {"network": name, **trained(name, arguments.seed, Path(folder))}
            row |= attacked(name, Path(folder) / "whole", arguments.examples) | timed(name, arguments.seed)
        content["rows"].append(row)
        arguments.out.write_text(json.dumps(content, indent=1) + "\n")
        print(json.dumps(row), flush=True)


def trained(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Two epochs by the command line: once without a stop, and once killed after the first epoch and resumed."""
    process = subprocess.Popen(command(name, seed, folder / "killed"), stdout=subprocess.DEVNULL)
    while not (folder / "killed" / "resume.pt").is_file():
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    killed = process.wait() == -signal.SIGKILL
    at = torch.load(folder / "killed" / "resume.pt", weights_only=True)["learner"]["epoch"]
    for part in ("killed", "whole"):
        subprocess.run(command(name, seed, folder / part), check=True, stdout=subprocess.DEVNULL)
    one, two = (RunFolder(folder / part) for part in ("killed", "whole"))
    equal = all(same(one.load_tensors(file), two.load_tensors(file)) for file in ("model", "chosen", "state"))
    results = [{**(part.result() or {}), "seconds": None} for part in (one, two)]
    return {
        "killed": killed,
        "resumed_at_epoch": at,
        "equal_to_the_bit": equal and results[0] == results[1],
        "result": results[1]["last"],
        "engine": results[1]["made_with"]["engine"],
    }


def command(name: str, seed: int, out: Path) -> list[str]:
    """The command that trains a network."""
    words = ["train", "--data", "sample", "--method", "at", "--model", f"{FILE}:{name}", "--epochs", "2", "--quiet"]
    words += ["--seed", str(seed), "--attack-steps", "5", "--attack-warmup", "1", "--device", "cpu", "--out", str(out)]
    return [sys.executable, "-m", "orat", *words]


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    """Whether tensors are equal to the bit."""
    return one.keys() == two.keys() and all(torch.equal(value, two[key]) for key, value in one.items())


def attacked(name: str, folder: Path, examples: int) -> dict[str, Any]:
    """The loaded network: its accuracy as in the result, and AutoAttack image by image, ours and pyautoattack."""
    model, test = orat.load_model(folder, model=f"{FILE}:{name}"), orat.load_data("sample").test
    assert test is not None
    found = orat.evaluate(model, test, ["pgd20"], EPS)
    last = (RunFolder(folder).result() or {})["last"]
    x, y = as_input(test.images[:examples]), test.labels[:examples]
    masks = []
    for attack in (orat.AutoAttack(), AutoAttackReference()):
        adv = attack(model, x, y, EPS)
        assert float((adv - x).abs().max()) <= EPS + 1e-6
        with torch.no_grad():
            masks.append((model(adv).argmax(1) == y) & (model(x).argmax(1) == y))
    return {
        "loaded_equals_result": all(found[key] == last[key] for key in ("natural", "pgd20")),
        "autoattack": {
            "images": examples,
            "eps": EPS,
            "robust_ours": int(masks[0].sum()),
            "robust_reference": int(masks[1].sum()),
            "agree": int((masks[0] == masks[1]).sum()),
        },
    }


def timed(name: str, seed: int) -> dict[str, Any]:
    """Milliseconds a step of ORAT with PGD-10, ours and the textbook's by turns, batches of 64."""
    train = orat.load_data("sample").train
    method = ORAT(m=len(train) // 5, burn_in=0, ramp=0)
    run = Run(method=method, model=getattr(foreign_networks, name), seed=seed, attack_steps=10, lr=0.01, validation=0.0)
    batches = shuffled(len(train), seed, 1).split(run.batch_size)[:-1]

    def ours() -> Step:
        model = build_model(run, train)
        how = suited(execution("auto", CPU, 1), model, train, run.precision, print)
        state = run.method.start(setting_of(run, Parts(train, None, None, torch.arange(len(train)), len(train))))
        learner = RunLearner(run, model, state, how.form, draws=how.draws)
        learner.modules.train()
        return stepper(train_step(learner, train, Eager()), batches, run.precision)

    def textbook() -> Step:
        network: nn.Module = build_plain(name, train, seed)
        steps = Textbook(network, train, run, len(train), len(train) // 5)
        return stepper(steps.step, batches, "tf32")

    times = in_turn({"ours": ours, "textbook": textbook}, range(ROUNDS), STEPS, WARM_UP["cpu"], Machine(CPU))
    typical = {key: timing.typical for key, timing in times.items()}
    return {
        "step_ms": {key: round(value, 2) for key, value in typical.items()},
        "rounds_ms": {key: [round(value, 2) for value in timing.rounds] for key, timing in times.items()},
        "ratio": round(typical["textbook"] / typical["ours"], 2),
    }


def build_plain(name: str, train: orat.data.Dataset, seed: int) -> nn.Module:
    """The network as its author builds it, with torch's dropout."""
    facts = {"ResNet": {"num_classes": 10, "in_channels": 1}, "Shared": {"channels": 1, "num_classes": 10}}
    with seeded(seed):
        return getattr(foreign_networks, name)(**facts.get(name, {"shape": train.shape, "classes": 10}))


if __name__ == "__main__":
    main()
