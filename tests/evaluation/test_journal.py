"""An evaluation that is stopped anywhere goes on where it was, with the same end; real processes, really killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_runs import hears_ctrl_c, quick
from torch import Tensor, nn

import orat
from orat.attacks import Threat
from orat.core.errors import InputError
from orat.data.source import Dataset
from orat.evaluation import Plan, examine
from orat.evaluation.progress import BROKEN, OPEN, ROBUST, JournalFile

SETTING = {"eps": 0.1, "norm": "linf"}
PLAN = Plan(Threat(0.1), ("pgd5", "apgd-ce"), batch_size=10, precision="float32")
LOOKS = 2 * 16  # samples on which examine and correct check that gradients reach the input, if an attack follows them


def written(file: Path) -> JournalFile:
    """A journal with an attack that is half done and one that is done."""
    journal = JournalFile(file, SETTING)
    half = journal.open("pgd20", torch.tensor([True, False, True, True]))
    half[0] = ROBUST
    done = journal.open("autoattack:apgd-ce", torch.tensor([True, True, True, True]))
    done[:] = torch.tensor([ROBUST, BROKEN, BROKEN, ROBUST])
    journal.warnings = ["100 % doubt", 'and "quotes"']
    journal.save()
    return journal


def test_a_journal_comes_back_from_its_file(tmp_path: Path) -> None:
    journal = written(tmp_path / "journal.json")
    again = JournalFile(tmp_path / "journal.json", SETTING)
    assert again.warnings == journal.warnings
    assert {name: verdict.tolist() for name, verdict in again.verdicts.items()} == {
        "pgd20": [ROBUST, BROKEN, OPEN, OPEN],
        "autoattack:apgd-ce": [ROBUST, BROKEN, BROKEN, ROBUST],
    }
    assert [file.name for file in tmp_path.iterdir()] == ["journal.json"]


def test_what_was_found_is_found_again_and_what_did_not_stand_before_is_not_open(tmp_path: Path) -> None:
    written(tmp_path / "journal.json")
    again = JournalFile(tmp_path / "journal.json", SETTING)
    assert again.open("pgd20", torch.ones(4, dtype=torch.bool)).tolist() == [ROBUST, BROKEN, OPEN, OPEN]
    assert again.open("square", torch.tensor([True, False])).tolist() == [OPEN, BROKEN]


def test_without_a_file_nothing_is_known(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "journal.json", SETTING)
    assert (journal.verdicts, journal.warnings) == ({}, None)


NOT_JSON = ["", "{", '{"setting": {}, "warn', "\x00\x00", "verdicts"]
NO_JOURNAL = ["[]", "{}", "3", '{"setting": {}, "warnings": null, "verdicts": {"pgd20": "01x"}}']


@pytest.mark.parametrize("content", [*NOT_JSON, *NO_JOURNAL])
def test_a_damaged_journal_is_one_line_with_what_to_do(content: str, tmp_path: Path) -> None:
    file = tmp_path / "journal.json"
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        JournalFile(file, SETTING)
    assert str(caught.value) == f"{file} is damaged: remove it to start the evaluation over"
    assert file.read_text() == content


def test_a_journal_cut_anywhere_is_damaged_and_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "journal.json"
    written(file)
    whole = file.read_bytes()
    for length in range(len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(InputError, match="is damaged"):
            JournalFile(file, SETTING)


class Counting(nn.Module):
    """A linear model of the plane that counts what it is asked, and is stopped when it has been asked enough."""

    def __init__(self, patience: float = float("inf")) -> None:
        super().__init__()
        self.last = nn.Linear(2, 2)
        with torch.no_grad():
            self.last.weight.copy_(torch.tensor([[-1.0, 0.5], [1.0, -0.5]]))
            self.last.bias.copy_(torch.tensor([0.25, -0.25]))
        self.patience = patience
        self.asked = 0  # samples with a gradient

    def forward(self, x: Tensor) -> Tensor:
        self.asked += len(x) * x.requires_grad
        if self.asked > self.patience:
            raise KeyboardInterrupt
        return self.last(x)


def points(n: int = 50) -> Dataset:
    x = torch.rand((n, 2), generator=torch.Generator().manual_seed(0))
    return Dataset(x, (x[:, 0] - 0.5 * x[:, 1] > 0.25).long(), ("low", "high"))


def asked(patience: float, folder: Path | None, plan: Plan = PLAN) -> int:
    """How many gradients an examination takes, stopped after so many."""
    model = Counting(patience).eval()
    try:
        examine(model, points(), plan, folder)
    except KeyboardInterrupt:
        assert patience < float("inf")
    return model.asked


def test_what_stands_in_the_journal_is_not_attacked_again(tmp_path: Path) -> None:
    report = examine(Counting().eval(), points(), PLAN, tmp_path)
    files = {file.name: file.read_bytes() for file in tmp_path.glob("*.*")}
    assert asked(float("inf"), tmp_path) == asked(float("inf"), tmp_path, replace(PLAN, attacks=())) + LOOKS
    examine(Counting().eval(), points(), PLAN, tmp_path)
    again = json.loads((tmp_path / "report.json").read_text())
    assert again | {"seconds": 0} == json.loads(json.dumps(report)) | {"seconds": 0}
    for name in ("journal.json", "samples.csv"):
        assert (tmp_path / name).read_bytes() == files[name]


def test_another_attack_takes_only_its_own_queries(tmp_path: Path) -> None:
    asked(float("inf"), tmp_path)
    none = asked(float("inf"), tmp_path, replace(PLAN, attacks=()))
    assert asked(float("inf"), tmp_path, replace(PLAN, attacks=("pgd5", "pgd7", "apgd-ce"))) == none + LOOKS + 7 * 50


def test_a_stopped_examination_loses_at_most_the_batch_it_was_at(tmp_path: Path) -> None:
    whole = asked(float("inf"), tmp_path / "whole")
    probes = asked(float("inf"), None, replace(PLAN, attacks=()))
    patience = (probes + whole) // 2
    stopped = asked(patience, tmp_path / "stopped")
    rest = asked(float("inf"), tmp_path / "stopped")
    assert patience < stopped <= patience + 10
    assert (
        whole <= stopped + rest <= whole + 50 + 10 * 101
    )  # a look at the model, a batch of ten, APGD's first look and its hundred steps
    for name in ("journal.json", "samples.csv"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "words"), [({"threat": Threat(0.2)}, "eps: 0.1 there, 0.2 here"), ({"seed": 7}, "seed: 0")]
)
def test_the_journal_of_another_setting_is_not_believed(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    examine(Counting().eval(), points(), PLAN, tmp_path)
    with pytest.raises(InputError, match=words):
        examine(Counting().eval(), points(), replace(PLAN, **changes), tmp_path)


def test_bounds_and_scale_belong_to_the_setting_and_come_back_from_disk(tmp_path: Path) -> None:
    plan = replace(PLAN, threat=Threat(0.1, low=(0.0, -1.0), scale=(1.0, 0.0)))
    report = examine(Counting().eval(), points(), plan, tmp_path)
    assert (report["low"], report["scale"]) == ((0.0, -1.0), (1.0, 0.0))
    assert asked(float("inf"), tmp_path, plan) == asked(float("inf"), tmp_path, replace(plan, attacks=())) + LOOKS
    with pytest.raises(InputError, match=r"holds another evaluation \(low: \[0.0, -1.0\] there, None here\)"):
        examine(Counting().eval(), points(), PLAN, tmp_path)


def test_the_journal_of_an_incompatible_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    examine(Counting().eval(), points(), PLAN, tmp_path)
    file = tmp_path / "journal.json"
    file.write_text(file.read_text().replace('"attacks": 1', '"attacks": 0'))
    with pytest.raises(
        InputError, match=r"attacks: 0 there, 1 here\): give --out a new folder, or --again to start over"
    ):
        examine(Counting().eval(), points(), PLAN, tmp_path)


def test_the_journal_of_other_images_is_not_believed(tmp_path: Path) -> None:
    examine(Counting().eval(), points(), PLAN, tmp_path)
    with pytest.raises(InputError, match="data: "):
        examine(Counting().eval(), points(40), PLAN, tmp_path)


# What follows is processes. The network counts its calls by the bytes of a file, also when it is killed, and waits
# while another file is there.
NETWORK = """
import os, sys, time
from pathlib import Path
from torch import nn
import orat

class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = orat.load_model({run!r})

    def forward(self, x):
        with open(os.environ["CALLS"], "ab", buffering=0) as file:
            file.write(b".")
        while os.path.exists(os.environ["HALT"]):
            time.sleep(0.01)
        return self.inner(x)

def build():
    return Counting().eval()
"""


@pytest.fixture(scope="module")
def script(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script with the network of a run that was trained on the tiny data."""
    folder = tmp_path_factory.mktemp("script")
    orat.train(quick(tiny, orat.methods.AT(), epochs=2), folder / "run")
    (folder / "network.py").write_text(NETWORK.format(run=str(folder / "run")))
    return folder / "network.py"


def evaluation(script: Path, tiny: str, out: Path) -> tuple[list[str], dict[str, str]]:
    """A command that attacks for some seconds in thirty batches of three, and its environment."""
    command = [sys.executable, "-m", "orat", "evaluate", "--model", f"{script}:build", "--data", tiny, "--json"]
    command += ["--attacks", "pgd100x4,apgd-ce", "--eps", "0.02", "--batch-size", "3", "--out", str(out)]
    return command, os.environ | {"OMP_NUM_THREADS": "1", "CALLS": f"{out}.calls", "HALT": f"{out}.halt"}


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The command as a process, which does not outlive the test."""
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    """Waits until something is reached; the process must still be running then."""
    while process.poll() is None and not reached():
        time.sleep(0.005)
    assert process.poll() is None, process.communicate()


def decided(out: Path) -> int:
    """How many verdicts a journal on disk has; every look at it must find it whole."""
    file = out / "journal.json"
    if not file.exists():
        return 0
    return sum(len(letters) - letters.count("?") for letters in json.loads(file.read_text())["verdicts"].values())


def calls(out: Path) -> int:
    return Path(f"{out}.calls").stat().st_size


@pytest.mark.slow
def test_kill_9_and_the_same_command_again_end_like_one_that_was_never_stopped(
    script: Path, tiny: str, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command, environment = evaluation(script, tiny, whole)
    expected = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    command, environment = evaluation(script, tiny, broken)
    for verdicts in (30, 120):  # in the first attack, and in the second
        with running(command, environment) as process:
            wait_for(process, lambda verdicts=verdicts: decided(broken) > verdicts)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert not (broken / "report.json").exists()
    before = calls(broken)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    last = calls(broken) - before
    assert last < calls(whole) / 2
    assert calls(whole) < calls(broken) < calls(whole) + 2 * 3 * 450  # twice a batch again, and twice the first look
    reports = [json.loads(process.stdout) for process in (expected, done)]
    for report in reports:
        del report["seconds"], report["folder"]
    assert reports[0] == reports[1]
    for name in ("journal.json", "samples.csv"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()


def test_a_second_process_is_refused_and_ctrl_c_says_how_to_go_on(script: Path, tiny: str, tmp_path: Path) -> None:
    out = tmp_path / "a"
    command, environment = evaluation(script, tiny, out)
    with running(command, environment) as process:
        wait_for(process, lambda: decided(out) > 0)
        Path(environment["HALT"]).touch()
        second = subprocess.run(
            command, env=environment | {"CALLS": os.devnull, "HALT": ""}, capture_output=True, text=True
        )
        assert second.returncode == 2
        assert second.stdout == ""
        assert second.stderr == f"orat: {out} is in use by another process: wait for its end\n"
        assert process.poll() is None, "the first ended before the second could be refused"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output == ""
    assert errors.splitlines()[-1] == "orat: stopped; the same command goes on from there"
    assert "Traceback" not in errors
    assert decided(out) > 0
