"""The run folder: nothing of anybody's is overwritten, and nothing is lost, whenever a run stops."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from quick_runs import quick

import orat
from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.training import train as execute
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare


def test_a_folder_of_another_run_is_left_alone(tiny: str, tmp_path: Path) -> None:
    orat.train(quick(tiny, orat.methods.AT(), epochs=1), tmp_path / "a", display=SILENT)
    before = {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()}
    with pytest.raises(InputError, match="belongs to another run .epochs: 1 there, 2 here"):
        orat.train(quick(tiny, orat.methods.AT(), epochs=2), tmp_path / "a", display=SILENT)
    assert {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()} == before


def test_a_folder_with_other_files_is_left_alone(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="has files in it, but none of a run"):
        orat.train(quick(tiny, orat.methods.AT()), tmp_path, display=SILENT)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_nothing_is_written_when_the_run_cannot_start(tiny: str, tmp_path: Path) -> None:
    for method in (orat.methods.ORAT(m=0.999), orat.methods.ORAT(m=300), orat.methods.ORAT(m=2, k=301)):
        with pytest.raises(InputError, match="must"):
            orat.train(quick(tiny, method), tmp_path / "a", display=SILENT)
    with pytest.raises(InputError, match="unknown model"):
        orat.train(quick(tiny, orat.methods.AT(), model="resnet17"), tmp_path / "a", display=SILENT)
    assert not (tmp_path / "a").exists()


def test_changed_data_is_noticed_when_a_run_goes_on(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = quick(tiny, orat.methods.AT())
    monkeypatch.setattr(execute, "SAVE_AT_MOST_EVERY", 0.0)
    monkeypatch.setattr(execute.Job, "test", lambda job: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        orat.train(run, tmp_path / "a", display=SILENT)
    monkeypatch.setattr("orat.data.source.Dataset.fingerprint", lambda self: "other")
    with pytest.raises(InputError, match="the data of .* changed"):
        orat.train(run, tmp_path / "a", display=SILENT)


@pytest.mark.parametrize(("takes", "every"), [(0.01, 1), (0.1, 5), (0.5, 24)])
def test_checkpoints_that_take_long_come_less_often(
    takes: float, every: int, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs of 2.1 seconds on a clock that only epochs and checkpoints move."""
    clock, saved = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(execute.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(execute.Job, "validate", lambda job, epoch: setattr(clock, "now", clock.now + 2.1) or {})

    def save_resume(folder: RunFolder, content: dict[str, Any]) -> None:
        saved.append(content["learner"]["epoch"] - 1)
        clock.now += takes

    monkeypatch.setattr(RunFolder, "save_resume", save_resume)
    orat.train(quick(tiny, orat.methods.AT(), epochs=30, validation=0.0), tmp_path / "a", display=SILENT)
    assert saved == [*range(1, 31, every), 30]  # the last with the result


def test_a_run_goes_on_only_on_the_kind_of_device_it_was_started_on(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.AT())
    folder = RunFolder(tmp_path / "a")
    folder.claim(run, prepare(run).train)
    folder.write_history([])
    folder.save_resume({"format": execute.FORMAT, "device": "cuda"})
    folder.lock.release()
    with pytest.raises(InputError, match="was started on cuda, not on cpu: go on with --device cuda"):
        orat.train(run, tmp_path / "a", device="cpu", display=SILENT)


def test_two_processes_cannot_train_in_one_folder(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.AT())
    folder = RunFolder(tmp_path / "a")
    folder.claim(run, prepare(run).train)
    with pytest.raises(InputError, match="in use by another process"):
        orat.train(run, tmp_path / "a", display=SILENT)
    folder.lock.release()


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 1}', '{"format": 1, "method": {"name": "at"}, "no": 3}'])
def test_a_damaged_run_json_is_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json is damaged") as caught:
        orat.load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_damaged_checkpoint_is_one_line_and_stays(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.AT())
    folder = RunFolder(tmp_path / "a")
    folder.claim(run, prepare(run).train)
    folder.lock.release()
    (tmp_path / "a" / "resume.pt").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(InputError, match=r"resume\.pt is damaged: remove it"):
        orat.train(run, tmp_path / "a", display=SILENT)
    assert (tmp_path / "a" / "resume.pt").exists()


def test_a_folder_left_by_a_kill_before_its_first_file_is_taken(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".run.json.new").write_bytes(b"{")
    assert orat.train(quick(tiny, orat.methods.AT(), epochs=1), tmp_path / "a", display=SILENT)["last"]["epoch"] == 1


def test_half_a_line_of_history_left_by_a_kill_is_no_line(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.AT())
    folder = RunFolder(tmp_path / "a")
    folder.claim(run, prepare(run).train)
    folder.lock.release()
    (tmp_path / "a" / "history.jsonl").write_text('{"epoch": 1}\n{"epoch": 2, "lo')
    assert folder.history() == [{"epoch": 1}]
    orat.train(run, tmp_path / "a", display=SILENT)
    assert [record["epoch"] for record in folder.history()] == [1, 2, 3, 4]


def test_run_json_is_the_run(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, orat.methods.ORAT(m=7), epochs=1, noise="symmetric", noise_rate=0.1)
    orat.train(run, tmp_path / "a", display=SILENT)
    assert Run.from_record(json.loads((tmp_path / "a" / "run.json").read_text())) == run
