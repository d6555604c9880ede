"""Bad input at every door: one line, exit code 2, and nothing written; one table for all doors."""

from __future__ import annotations

import os
import pickle
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from quick_runs import quick
from refusals import wrong

import orat
from orat.core.console import SILENT

CODE = """
from dataclasses import dataclass
import torch
from torch import nn
from torch.utils.data import TensorDataset
import orat

def flat(*layers): return nn.Sequential(nn.Flatten(), nn.Linear(144, 3), *layers)
def nine(): return nn.Sequential(nn.Flatten(), nn.Linear(144, 9))
def color(): return nn.Sequential(nn.Conv2d(3, 3, 3), nn.Flatten(), nn.Linear(300, 3))
def double(): return flat().double()
def softmax(): return flat(nn.Softmax(1))
def lost():
    network = flat()
    nn.init.constant_(network[1].weight, float("nan"))
    return network
class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = flat()
    def forward(self, x):
        with torch.no_grad():
            return self.inner(x)
def number(): return 3

@dataclass(frozen=True)
class Lossless(orat.Method):
    scale: float = 1.0
@dataclass(frozen=True)
class Many(Lossless):
    def loss(self, step): return step.model(step.batch.x).sum(1)
class Text(Many):
    def loss(self, step): return "0"
class NaN(Many):
    def loss(self, step): return step.model(step.batch.x).mean() * float("nan")
class Dead(Many):
    def loss(self, step): return torch.tensor(1.0)

def short(model, x, y, threat, draws): return x[:1]
def halves(model, x, y, threat, draws): return x.half()
def nan(model, x, y, threat, draws): return x * float("nan")
def far(model, x, y, threat, draws): return 1 - x
MEAN = orat.PGD(steps=1, loss=lambda logits, y: logits.mean())
NUMBER = 3

IMAGES, LABELS = torch.rand(30, 12, 12), torch.arange(30) % 3
wide = lambda: (torch.rand(30, 2, 3, 12, 12), LABELS)
uneven = lambda: (IMAGES, LABELS[:7])
holes = lambda: (IMAGES * float("nan"), LABELS)
halves_of_labels = lambda: (IMAGES, LABELS + 0.5)
alone = lambda: (IMAGES, LABELS * 0)
items = lambda: TensorDataset(IMAGES)
"""
RUN = "train --method at --model mlp-4 --eps 0.1 --epochs 1 --augment none --quiet --out new --data"
OK = f"{RUN} ok.npz"
TABLE = "train --method at --epochs 1 --quiet --out new --target label --data"
FIND = "labels find --out new --predictions"
LOOK = "evaluate --attacks pgd10 --out new --data ok.npz --eps 0.1 --model"

TABLE_OF_REFUSALS = {
    # A network
    f"{OK} --model own.py:nine": "the network gives (2, 9) for 2 samples of 3 classes: let it give (2, 3)",
    f"{OK} --model own.py:color": "own.py:color on inputs of shape (2, 1, 12, 12) fails with RuntimeError",
    f"{OK} --model own.py:double": "own.py:double on inputs of shape (2, 1, 12, 12) fails with RuntimeError",
    f"{OK} --model own.py:lost": "the network gives NaN or infinite logits for 2 of 2 samples",
    f"{OK} --model own.py:softmax": "the network gives probabilities, and softmax gradients vanish",
    f"{OK} --model own.py:Cut": "no gradient of the network reaches its inputs",
    f"{OK} --model own.py:number": "own.py:number returns a int, not a network: give a function that returns",
    f"{OK} --model own.py:nein": "unknown name in own.py: 'nein': did you mean 'nine'?",
    f"{OK} --model nowhere.py:make": "there is no file nowhere.py in ",
    f"{OK} --model own.py:flat --init-from code.pth": "refused, since reading it could run code",
    f"{OK} --model own.py:flat --init-from ok.npz": "ok.npz",
    # A method
    f"{OK} --method own.py:Lossless": "Lossless has no loss: define loss(self, step)",
    f"{OK} --method own.py:Many": "the loss of own.py:Many gives (16,) for 16 samples: return one number",
    f"{OK} --method own.py:Text": "the loss of own.py:Text gives str: return one number to minimize",
    f"{OK} --method own.py:NaN": "the loss of own.py:NaN gives nan for 16 samples",
    f"{OK} --method own.py:Dead": "the loss of own.py:Dead gives a number without a gradient",
    f"{OK} --method own.py:Many --scale x": "--scale: 'x' is not a number",
    f"{OK} --method own.py:Many --scael 2": "unknown flag '--scael': did you mean '--scale'?",
    f"{OK} --method own.py:number": "own.py:number is a function, no training method",
    # An attack
    f"{OK} --attack own.py:short": "the attack own.py:short gives inputs of (1, 1, 12, 12): return inputs of (16,",
    f"{OK} --attack own.py:halves": "the attack own.py:halves gives inputs of torch.float16: return",
    f"{OK} --attack own.py:nan": "the attack own.py:nan gives NaN for 16 of 16 inputs",
    f"{OK} --attack own.py:far": "return threat.project(adv, x)",
    f"{OK} --attack own.py:MEAN": "give one number per sample, without mean or sum",
    f"{OK} --attack own.py:NUMBER": "own.py:NUMBER is a value of type int, no attack",
    "evaluate run --attacks own.py:short": "the attack own.py:short gives inputs of (1, 1, 12, 12)",
    "evaluate run --attacks own.py:nan": "the attack own.py:nan gives NaN for",
    "evaluate run --attacks own.py:far": "return threat.project(adv, x)",
    "evaluate run --attacks pgdd10": "unknown attack 'pgdd10': did you mean 'pgd10'?",
    # Images and labels
    f"{RUN} wrong-shape.npz": "x_train in wrong-shape.npz has the shape (30, 2, 3, 12, 12)",
    f"{RUN} uneven.npz": "there are 30 samples but labels of shape (7,): give one label a sample",
    f"{RUN} complex.npz": "x_train in complex.npz holds complex128",
    f"{RUN} nan.npz": "x_train in nan.npz holds NaN or infinity",
    f"{RUN} fractions.npz": "y_train in fractions.npz holds fractions or NaN",
    f"{RUN} unlabeled.npz": "unlabeled.npz has no 'y_train'",
    f"{RUN} one-class.npz": "one-class.npz has one class, '0': give two or more",
    f"{RUN} junk.npz": "cannot read junk.npz as .npz",
    f"{RUN} own.py:wide": "x_train in own.py:wide has the shape (30, 2, 3, 12, 12)",
    f"{RUN} own.py:uneven": "there are 30 samples but labels of shape (7,)",
    f"{RUN} own.py:holes": "x_train in own.py:holes holds NaN or infinity",
    f"{RUN} own.py:halves_of_labels": "y_train in own.py:halves_of_labels holds fractions or NaN",
    f"{RUN} own.py:alone": "own.py:alone has one class, '0': give two or more",
    f"{RUN} own.py:items": "own.py:items",
    f"{RUN} broken": "cannot read the image broken/cat/x.png (no image)",
    f"{RUN} one": "one has one class, 'cat': give two or more",
    f"{RUN} empty": "empty has no class folders",
    f"{RUN} nowhere": "there is no nowhere, nor a data set of this name",
    f"{RUN} no-label.csv": "no-label.csv has no column of labels: its columns are path, kind",
    f"{RUN} no-image.csv": "1 image of 2 in no-image.csv not found",
    f"{RUN} no-name.csv": "no-name.csv, line 3: the label is empty",
    f"{OK} --labels short.csv": "short.csv",
    # A table
    f"{TABLE} table-nan.csv": "table-nan.csv, column 'a', line 3: the value is missing",
    f"{TABLE} table-text.csv": "table-text.csv, column 'a', line 3: 'x' is no number",
    f"{TABLE} table-short.csv": "table-short.csv, line 3: 1 cells for 3 columns",
    f"{TABLE} table-one.csv": "table-one.csv, column 'label': all rows have the class 'yes'",
    f"{TABLE} table.csv --target lable": "unknown column of table.csv: 'lable': did you mean 'label'?",
    f"{TABLE} table.csv --frozen c": "unknown column of frozen: 'c'",
    f"{TABLE} table.csv --bounds 5,1": "give data, none, or two numbers LOW,HIGH with LOW below HIGH",
    f"{TABLE} table.csv --model own.py:flat": "own.py:flat on inputs of shape (2, 2) fails with RuntimeError",
    # Predictions
    f"{FIND} flat.npy --labels labels.csv": "flat.npy has the shape (90,): give one row a sample",
    f"{FIND} holes.npy --labels labels.csv": "holes.npy has NaN or infinity in rows: 1, first of sample 3",
    f"{FIND} percent.npy --labels labels.csv": "percent.npy: every row sums to 100",
    f"{FIND} mixed.npy --labels labels.csv": "15 of 30 rows are probabilities, but sample 15",
    f"{FIND} texts.npy --labels labels.csv": "texts.npy",
    f"{FIND} probs.npy --labels short.csv": "short.csv has 7 labels for 30 samples: give one a sample",
    f"{FIND} probs.npy --labels far.csv": "far.csv",
    f"{FIND} probs.npy --labels same.csv": "the labels are all of one class",
    f"{FIND} probs.npy --labels nowhere.csv": "there is no file nowhere.csv",
    # A finished model in use
    "predict run broken/cat/x.png --out new.csv": "broken/cat/x.png",
    "predict run small.npy --out new.csv": "small.npy",
    "predict run holes-in.npy --out new.csv": "holes-in.npy",
    "predict run table.csv --out new.csv": "table.csv is a table, but the network was not trained on a table",
    "predict run empty --out new.csv": "there are no images",
    "predict run ok --out new.csv --certain pgdd10": "unknown attack 'pgdd10': did you mean 'pgd10'?",
    "predict on-table table-text.csv --out new.csv": "table-text.csv",
    "predict on-table no-b.csv --out new.csv": "no-b.csv has no column 'b': give all columns of the training",
    "predict nowhere ok --out new.csv": "nowhere is not a run folder",
    # A file of settings
    "train --config key.toml": "key.toml: unknown key 'epoch': did you mean 'epochs'?",
    "train --config type.toml": "type.toml: lr = \"x\": 'x' is not a number",
    "train --config whole.toml": "whole.toml: seed = 1.5: '1.5' is not a whole number",
    "train --config syntax.toml": "syntax.toml: not TOML",
    "train --config part.toml": "part.toml: [train] begins a table: write all keys without tables",
    "train --config other.toml": "other.toml: m is for aorr, orat, not for at",
    "train --config code.toml": "code.toml: model own.py:flat is code that a file names",
    "train --config nowhere.toml": "nowhere.toml",
    # A network in the evaluation
    f"{LOOK} own.py:nine": "the network gives (30, 9) for 30 samples of 3 classes",
    f"{LOOK} own.py:color": "own.py:color on inputs of shape (2, 1, 12, 12) fails with RuntimeError",
    f"{LOOK} own.py:double": "own.py:double on inputs of shape (2, 1, 12, 12) fails with RuntimeError",
    f"{LOOK} own.py:lost": "the network gives NaN or infinite logits",
    f"{LOOK} own.py:Cut": "no gradient of the network reaches its input",
    f"{LOOK} own.py:flat --eps 8": "did you mean 8/255?",
    f"{LOOK} own.py:flat --norm l3": "unknown norm 'l3'",
    f"{LOOK} own.py:flat --weights code.pth": "refused, since reading it could run code",
    "evaluate --model own.py:flat --data ok.npz": "--eps is missing",
    "evaluate --model own.py:flat --data ok.npz --eps nan": "eps = nan",
    "evaluate --model own.py:flat --data ok --eps 0.1": "ok has no test part",
    # Fields of a run
    f"{OK} --eps 8": "did you mean 8/255?",
    f"{OK} --lr nan": "lr = nan",
    f"{OK} --epochs 0": "epochs = 0: give 1 or more",
    f"{OK} --noise symmetric --noise-rate 2": "noise_rate = 2",
    f"{OK} --method oratt": "unknown method 'oratt': did you mean 'orat'?",
}


class Code:
    """A pickle that makes a file when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("executed",)


def save_arrays(folder: Path) -> None:
    """Arrays for training, with one mistake each."""
    x, y = np.random.default_rng(0).integers(0, 256, (30, 12, 12), dtype=np.uint8), np.arange(30) % 3
    np.savez(folder / "ok.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    for name, bad_x, bad_y in [
        ("wrong-shape", np.zeros((30, 2, 3, 12, 12)), y), ("uneven", x, y[:7]), ("complex", x.astype(complex), y),
        ("nan", np.full(x.shape, np.nan), y), ("fractions", x, y + 0.5), ("one-class", x, y * 0),
    ]:  # fmt: skip
        np.savez(folder / name, x_train=bad_x, y_train=bad_y)
    np.savez(folder / "unlabeled", x_train=x)
    np.save(folder / "small", x[:, :5])
    np.save(folder / "holes-in", np.full(x.shape, np.nan))
    for name in ("ok/cat", "ok/dog", "broken/cat", "broken/dog", "one/cat"):
        (folder / name).mkdir(parents=True)
        for place in range(2):
            Image.fromarray(x[place]).save(folder / name / f"{place}.png")
    (folder / "broken/cat/x.png").write_bytes(b"nothing")
    (folder / "empty").mkdir()


def save_predictions(folder: Path) -> None:
    """Predictions and labels, with one mistake each."""
    p = np.full((30, 3), 0.1) + 0.7 * np.eye(3)[np.arange(30) % 3]
    holes, mixed = p.copy(), p.copy()
    holes[3], mixed[15:] = np.nan, np.log(p[15:])
    arrays = {"probs": p, "flat": p.ravel(), "holes": holes, "percent": 100 * p, "mixed": mixed}
    arrays["texts"] = np.full(p.shape, "x")
    for name, array in arrays.items():
        np.save(folder / name, array)
    labels = [str(place % 3) for place in range(30)]
    for name, own in {"labels": labels, "short": labels[:7], "far": ["9"] * 30, "same": ["0"] * 30}.items():
        (folder / f"{name}.csv").write_text("\n".join(["label", *own]))


def save_texts(folder: Path) -> None:
    """Code, weights, lists, tables and settings, with one mistake each."""
    rows = [f"{place / 7:.2f},{place % 5},{('no', 'yes')[place % 2]}" for place in range(40)]
    tables = {
        "table": rows, "table-nan": [rows[0], ",1,no", *rows], "table-text": [rows[0], "x,1,no", *rows],
        "table-short": [rows[0], "1", *rows], "table-one": [row.replace("no", "yes") for row in rows],
    }  # fmt: skip
    texts = {f"{name}.csv": "\n".join(["a,b,label", *own]) for name, own in tables.items()} | {
        "own.py": CODE,
        "junk.npz": "nothing",
        "no-b.csv": "a,label\n1,yes\n2,no",
        "no-label.csv": "path,kind\nok/cat/0.png,cat\nok/dog/0.png,dog",
        "no-image.csv": "path,label\nok/cat/0.png,cat\nok/dog/9.png,dog",
        "no-name.csv": "path,label\nok/cat/0.png,cat\nok/dog/0.png,",
        "key.toml": "method = 'at'\nepoch = 1",
        "type.toml": "method = 'at'\nlr = 'x'",
        "whole.toml": "method = 'at'\nseed = 1.5",
        "syntax.toml": "method = 'at'\nlr = = 1",
        "part.toml": "method = 'at'\n[train]\nlr = 1",
        "other.toml": "method = 'at'\nm = 0.1",
        "code.toml": "method = 'at'\nmodel = 'own.py:flat'",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "code.pth").write_bytes(pickle.dumps(Code()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    """A folder with every file of the table, and two finished runs."""
    folder = tmp_path_factory.mktemp("doors")
    save_arrays(folder)
    save_predictions(folder)
    save_texts(folder)
    few = {"epochs": 1, "milestones": (), "attack_steps": 1}
    orat.train(quick(tiny, orat.methods.AT(), **few), folder / "run", device="cpu", display=SILENT)
    run = orat.Run(data=str(folder / "table.csv"), target="label", method=orat.methods.AT(), epochs=1)
    orat.train(run, folder / "on-table", device="cpu", display=SILENT)
    return folder


def content(folder: Path) -> dict[Path, bytes | None]:
    """The files and folders below a folder, but for those that Python keeps of code."""
    paths = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize("command", TABLE_OF_REFUSALS)
def test_bad_input_ends_in_one_line_and_code_2_and_nothing_is_written(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    torch.manual_seed(0)
    before = content(folder)
    line = wrong(capsys, *shlex.split(command), *(["--device", "cpu"] if command.split()[0] != "labels" else []))
    assert TABLE_OF_REFUSALS[command] in line, line
    assert line.startswith("orat: ")
    assert content(folder) == before
