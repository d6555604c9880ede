"""The queue on tiny images: what is done, what fits, killed and resumed to the bit, and reports merged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cifar_queue
import pytest
from cifar_queue import Entry, Item

from orat.training import observers
from orat_paper.reproduce import artifacts, settings
from orat_paper.reproduce.artifacts import Artifact
from orat_paper.reproduce.reports import read_reports
from orat_paper.reproduce.settings import Places

ROOT = Path(__file__).parents[2]
FIELDS: dict[str, Any] = {
    "epochs": 2, "milestones": (), "batch_size": 64, "attack_steps": 2, "warmup": 0.0, "lr": 0.1,
}  # fmt: skip
ONLY = "data=mnist,eps=0.1,noise=symmetric,rate=20"
TINY = (
    Item("one", "table1", f"{ONLY},method=AT"),
    Item("two", "table1", f"{ONLY},method=ST"),
    Item("two", "tiny", ONLY),
)


def small(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]) -> None:
    """Three cells of MNIST as short runs of an MLP."""
    cell = artifacts.noisy("mnist", "0.1", 20, "WMMR")
    monkeypatch.setitem(artifacts.artifacts(), "tiny", Artifact("tiny", "one cell", (cell,)))
    monkeypatch.setitem(settings.MODELS, "mnist", "mlp-16")
    monkeypatch.setitem(settings.FIELDS, "ours", fields)
    monkeypatch.setattr(cifar_queue, "QUEUE", TINY)


def call(monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    """The command."""
    monkeypatch.setattr(sys, "argv", ["cifar_queue.py", *flags])
    cifar_queue.main()


def states(text: str) -> list[str]:
    """The states in a printed queue."""
    return [line.split(" | ")[5] for line in text.splitlines() if line.startswith(("| one | t", "| two | t"))]


def test_the_queue_has_the_blocks_in_their_order_and_the_lossless_runs_are_done() -> None:
    known = read_reports(sorted((ROOT / "results").glob("reproduce-*.json")))
    entries = cifar_queue.queue(Places(Path("nowhere"), reported=known))
    first = [entry for entry in entries if entry.block == "first"]
    assert len(first) == 18
    assert entries[:18] == first
    done = [(entry.trial.cell.noise, entry.trial.cell.method) for entry in first if entry.done]
    kinds = [(noise, method) for noise in ("symmetric", "asymmetric") for method in ("AT", "ORAT", "ORAT automatic")]
    assert set(kinds) <= set(done)
    weights = next(place for place, entry in enumerate(entries) if entry.artifact.name == "pretraining")
    assert entries[weights + 1].trial.run.init_from == str(entries[weights].trial.folder)
    assert not entries[weights + 1].ready
    models = {entry.trial.run.model for entry in first}
    assert models == {"small_cnn", "resnet18"}
    assert all(0 < entry.seconds < 700 for entry in first if not entry.done)


def test_runs_that_fit_are_run_and_reported_one_by_one(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small(monkeypatch, FIELDS)
    places = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--device", "cpu"]
    data = ["--data", f"mnist={tiny}"]
    monkeypatch.setattr(cifar_queue, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(Entry, "seconds", property(lambda entry: 0.0 if entry.done else 100.0))
    call(monkeypatch, *places, *data, "--seconds", "90")
    assert states(capsys.readouterr().out) == ["waiting"] * 3  # none fits
    written = []
    once = cifar_queue.write_reports

    def write(entries: Any, out: Path) -> None:
        once(entries, out)
        written.append({file.name: len(json.loads(file.read_text())["runs"]) for file in out.glob("*.json")})

    monkeypatch.setattr(cifar_queue, "write_reports", write)
    call(monkeypatch, *places, *data, "--seconds", "190", "--block", "one")
    assert states(capsys.readouterr().out) == ["done"]
    assert written[0] == {}
    assert written[1] == {"table1-mnist.json": 1}
    call(monkeypatch, *places, *data, "--seconds", "300", "--at-once", "2")
    assert states(capsys.readouterr().out) == ["done"] * 3
    assert written[-1] == {"table1-mnist.json": 2, "tiny-mnist.json": 1}
    known = [str(tmp_path / "out" / "table1-mnist.json")]
    call(monkeypatch, "--runs", str(tmp_path / "empty"), *data, "--known", *known)
    assert states(capsys.readouterr().out) == ["done", "done", "waiting"]


def test_at_once_are_trials_of_one_network_that_together_fit() -> None:
    entries = cifar_queue.queue(Places(Path("nowhere")))
    small_cnn = cifar_queue.next_batch(entries, 560, None, begin=False)
    assert [entry.trial.cell.method for entry in small_cnn] == ["AT", "ORAT"]
    assert 560 / 2 < cifar_queue.needed(small_cnn) < sum(entry.seconds for entry in small_cnn) < 560
    others = [entry for entry in entries if entry.trial.run.model == "resnet18"]
    assert len(cifar_queue.next_batch(others, 560, None, begin=False)) == 1
    assert cifar_queue.next_batch(others, 500, None, begin=False) == []
    assert cifar_queue.next_batch(others, 500, None, begin=True) == others[:1]
    assert cifar_queue.next_batch(others, 30, None, begin=True) == []
    digits = [entry for entry in entries if entry.trial.run.model == "lenet"]
    assert len(cifar_queue.next_batch(digits, 560, None, begin=False)) == 8


LONGER = FIELDS | {"epochs": 10, "batch_size": 8, "lr": 0.01, "validation": 0.0}
SCRIPT = f"""
import sys
import cifar_queue
from cifar_queue import Item
from orat.training import observers
from orat_paper.reproduce import settings
settings.MODELS["mnist"], settings.FIELDS["ours"] = "mlp-16", {LONGER}
cifar_queue.RESULTS = cifar_queue.Path("nowhere")
cifar_queue.QUEUE = (Item("one", "table1", "{ONLY},method=AT"),)
observers.SAVE_AT_MOST_EVERY = 0.0
cifar_queue.main()
"""


def process(out: Path, data: str, seconds: float) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    flags = ["--runs", str(out / "runs"), "--out", str(out / "out"), "--seconds", str(seconds), "--begin"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "experiments")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-c", SCRIPT, *flags, "--device", "cpu", "--data", f"mnist={data}"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_kill_9_and_the_end_of_the_time_lose_nothing(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    with process(broken, tiny, 400) as one:
        while one.poll() is None and not list(broken.glob("runs/*/resume.pt")):
            time.sleep(0.005)
        one.send_signal(signal.SIGKILL)
    (folder,) = broken.glob("runs/*")
    assert not (folder / "result.json").exists()
    small(monkeypatch, LONGER)
    monkeypatch.setattr(cifar_queue, "QUEUE", TINY[:1])
    monkeypatch.setattr(cifar_queue, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(cifar_queue, "WORTH_BEGINNING", 0.0)
    monkeypatch.setattr(observers, "SAVE_AT_MOST_EVERY", 0.0)
    for out, seconds in ((broken, "0.4"), (broken, "400"), (whole, "400")):
        flags = ["--runs", str(out / "runs"), "--out", str(out / "out"), "--device", "cpu", "--data", f"mnist={tiny}"]
        call(monkeypatch, *flags, "--seconds", seconds, "--begin")
        text = capsys.readouterr().out
        assert ("the time is up: the same command goes on" in text) == (seconds == "0.4")
    other = whole / "runs" / folder.name
    assert (folder / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    runs = [json.loads((out / "out" / "table1-mnist.json").read_text())["runs"][0] for out in (broken, whole)]
    assert runs[0]["accuracy"] == runs[1]["accuracy"]
