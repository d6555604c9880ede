"""The run folder: files of others are never overwritten, and a stop or a full disk loses nothing."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_runs import assert_same, checkpoint, quick, train_until_stopped

from orat.core import files
from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.methods import AT, ORAT, Method
from orat.training.load import load_model
from orat.training.loop import FORMAT
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare
from orat.training.train import train


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def begun(run: Run, path: Path) -> RunFolder:
    """The folder of a run that was stopped before its first checkpoint."""
    folder = RunFolder(path)
    with folder.claimed(run, prepare(run).train):
        pass
    return folder


# Folders of others.


def test_the_folder_of_another_run_is_left_alone(tiny: str, tmp_path: Path) -> None:
    train(quick(tiny, AT(), epochs=1), tmp_path, display=SILENT)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="belongs to another run .epochs: 1 there, 2 here.: give --out a new folder"):
        train(quick(tiny, AT(), epochs=2), tmp_path, display=SILENT)
    assert contents(tmp_path) == before


def test_a_folder_with_other_files_is_left_alone(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="has files in it, but none of a run"):
        train(quick(tiny, AT()), tmp_path, display=SILENT)
    assert contents(tmp_path) == {"thesis.txt": b"years of work"}


def test_a_file_in_the_place_of_the_folder_is_left_alone(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(InputError, match="a is a file: give --out a new folder"):
        train(quick(tiny, AT()), tmp_path / "a", display=SILENT)
    assert (tmp_path / "a").read_text() == "a file"


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        (ORAT(m=0.999), {}, "must"),
        (ORAT(m=300), {}, "must"),
        (ORAT(m=2, k=301), {}, "must"),
        (AT(), {"eps": 8.0}, "did you mean 8/255"),
        (AT(), {"model": "resnet17"}, "unknown (model|network)"),
        (ORAT(scout_model="resnet17"), {}, "unknown (model|network)"),
    ],
)
def test_nothing_is_written_if_the_run_cannot_start(
    method: Method, changes: dict[str, Any], words: str, tiny: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        train(quick(tiny, method, **changes), tmp_path / "a", display=SILENT)
    assert not (tmp_path / "a").exists()


def test_a_folder_is_used_by_one_process_at_a_time(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT(), epochs=1)
    folder = RunFolder(tmp_path)
    with folder.claimed(run, prepare(run).train), pytest.raises(InputError, match="in use by another process"):
        train(run, tmp_path, display=SILENT)
    assert train(run, tmp_path, display=SILENT)["last"]["epoch"] == 1


# What a checkpoint fits.


def test_changed_data_are_noticed_when_a_run_is_resumed(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = quick(tiny, AT())
    train_until_stopped(run, tmp_path, 3, monkeypatch)
    monkeypatch.setattr("orat.data.source.Dataset.fingerprint", lambda self: "other")
    with pytest.raises(InputError, match="the data of .* changed since .* other now.: bring it back"):
        train(run, tmp_path, display=SILENT)


def test_a_run_is_resumed_on_the_kind_of_device_that_it_was_started_on(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT())
    begun(run, tmp_path).save_resume({"format": FORMAT, "device": "cuda"})
    with pytest.raises(InputError, match="was started on cuda, not on cpu: go on with --device cuda"):
        train(run, tmp_path, device="cpu", display=SILENT)


def test_a_damaged_checkpoint_is_refused_in_one_line_and_stays(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT())
    begun(run, tmp_path)
    (tmp_path / "resume.pt").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(InputError, match=r"resume\.pt is damaged: remove it") as caught:
        train(run, tmp_path, display=SILENT)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "resume.pt").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2}', '{"format": 2, "method": {"name": "at"}, "no": 3}'])
def test_a_damaged_run_json_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json is damaged") as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


# Kills and full disks.


def test_a_folder_left_by_a_kill_before_its_first_file_is_taken(tiny: str, tmp_path: Path) -> None:
    (tmp_path / ".run.json.new").write_bytes(b"{")
    assert train(quick(tiny, AT(), epochs=1), tmp_path, display=SILENT)["last"]["epoch"] == 1


def test_half_a_line_of_a_history_left_by_a_kill_is_no_line(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, AT())
    folder = begun(run, tmp_path)
    (tmp_path / "history.jsonl").write_text('{"epoch": 1}\n{"epoch": 2, "lo')
    assert folder.history() == [{"epoch": 1}]
    train(run, tmp_path, display=SILENT)
    assert [record["epoch"] for record in folder.history()] == [1, 2, 3, 4]


@pytest.mark.parametrize("full_after", [1, 3, 8])
def test_a_full_disk_leaves_the_last_checkpoint_whole(
    full_after: int, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a certain checkpoint on, no file can be written; then there is room again."""
    run, written = quick(tiny, AT(), epochs=2), iter(range(full_after))
    train(run, tmp_path / "whole", display=SILENT)

    def write(path: Path, content: bytes) -> None:
        if path.name == "resume.pt" and next(written, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        files.replace_file(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("orat.training.run_folder.replace_file", write)
        patch.setattr("orat.training.observers.SAVE_EVERY", -1.0)
        with pytest.raises(OSError, match="No space left on device"):
            train(run, tmp_path / "broken", display=SILENT)
    assert checkpoint(tmp_path / "broken")["learner"]["step"] == full_after
    assert not [name for name in contents(tmp_path / "broken") if name.endswith(".new")]
    train(run, tmp_path / "broken", display=SILENT)
    assert_same(tmp_path / "whole", tmp_path / "broken")


def test_histories_reach_the_disk_before_the_checkpoint_that_counts_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda number: order.append(Path(f"/proc/self/fd/{number}").readlink().name))
    folder = RunFolder(tmp_path)
    folder.append("history.jsonl", {"epoch": 1})
    folder.append("cross_fit.jsonl", {"epoch": 1})
    folder.save_resume({"format": FORMAT})
    assert sorted(order[:2]) == ["cross_fit.jsonl", "history.jsonl"]
    assert order[2:] == [".resume.pt.new"]


# Files.


def test_run_json_is_the_run_and_config_json_tells_the_network(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, ORAT(m=7), epochs=1, noise="symmetric", noise_rate=0.1)
    train(run, tmp_path, display=SILENT)
    assert Run.from_record(json.loads((tmp_path / "run.json").read_text())) == run
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["model"], config["shape"], config["classes"]) == ("mlp-16", [1, 12, 12], ["0", "1", "2"])


def test_a_finished_folder_holds_no_more_than_its_files(tiny: str, tmp_path: Path) -> None:
    train(quick(tiny, ORAT(scout_epochs=1), epochs=1), tmp_path, display=SILENT)
    kept = {"run.json", "run.toml", "config.json", "history.jsonl", "cross_fit.jsonl", "result.json"}
    kept |= {f"{name}.safetensors" for name in ("model", "state", "chosen", "predictions")}
    assert {name for name in contents(tmp_path) if name != ".lock"} == kept
    predictions = RunFolder(tmp_path).load_tensors("predictions")
    assert predictions["log_probs"].shape == (2, 270, 3)
    assert torch.allclose(predictions["log_probs"].exp().sum(2), torch.ones(2, 270, dtype=torch.float64))


def test_weights_of_an_unfinished_run_are_refused_with_what_to_do(tiny: str, tmp_path: Path) -> None:
    begun(quick(tiny, AT()), tmp_path)
    with pytest.raises(
        InputError, match=r"there is no model\.safetensors in .*: the run is not finished; run the same"
    ):
        load_model(tmp_path)
