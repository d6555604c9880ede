"""The folder of a search for label issues in data: its settings, and predictions that a stopped search left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from orat.core.errors import InputError
from orat.core.registry import IN_MEMORY, in_words, names_code
from orat.methods import ORAT
from orat.training.run import Run
from orat.training.run_folder import Folder

SETTINGS = "label-search.json"
JUDGED = "judged"  # the predictions that the labels were judged by
SEARCHES = Path("runs")  # of searches without a folder of their own
READ = (  # fields of a run that say which samples and labels are read
    "data", "labels", "noise", "noise_rate", "noise_seed", "image_size", "class_depth", "target", "bounds", "frozen",
    "seed",
)  # fmt: skip
DECIDE = (*READ, "augment", "batch_size", "lr", "precision")  # fields of a run


@contextmanager
def claimed(out: Path | None, settings: dict[str, Any]) -> Iterator[Folder | None]:
    """The folder for this process alone; refuses a folder of other settings, and a folder with other files in it."""
    if out is None:
        yield None
        return
    check_place(out, settings)
    folder = Folder(out)
    with folder.locked():
        folder.write_json(SETTINGS, settings)
        yield folder


def check_place(out: Path, settings: dict[str, Any]) -> None:
    """Refuses a file, files of others, and a search with other settings."""
    if out.is_file():
        raise InputError(f"{out} is a file: give --out a folder")
    if not (out / SETTINGS).is_file():
        if out.is_dir() and any(not one.name.startswith(".") for one in out.iterdir()):
            raise InputError(f"{out} has other files in it: give --out a new or empty folder")
        return
    there = json.loads((out / SETTINGS).read_text())
    for name, value in settings.items():
        if there.get(name) != value:
            raise InputError(
                f"{out} is of other data or settings ({name}: {there.get(name)} there, {value} now): "
                "give --out a new folder"
            )


def settings_of(run: Run, fingerprint: str, **more: Any) -> dict[str, Any]:
    """All that decides the predictions, as JSON."""
    record = run.record()
    return {name: record[name] for name in DECIDE if name in record} | {"fingerprint": fingerprint, **more}


def kept(folder: Folder | None, name: str, make: Callable[[], Tensor]) -> Tensor:
    """The predictions of this name in the folder, made and saved if they are missing."""
    if folder is None:
        return make()
    if not folder.has_tensors(name):
        folder.save_tensors(name, {"log_probs": make()})
    return folder.load_tensors(name)["log_probs"]


def finished(folder: Path, data: Any = None) -> tuple[Run, str, str, Tensor]:
    """What a finished search left: its data as a run, their fingerprint, what judged them, and the predictions.

    `data` are those that were searched, if they were objects in memory.
    """
    try:
        settings = json.loads((folder / SETTINGS).read_text())
    except ValueError as error:
        raise InputError(f"{folder / SETTINGS} is damaged ({error}): run `orat labels find` in a new folder") from None
    if "judged_by" not in settings or not Folder(folder).has_tensors(JUDGED):
        raise InputError(f"{folder} holds a search for label issues that is not finished: run `orat labels find` again")
    name = settings["data"] or IN_MEMORY
    if data is None and (name.startswith(IN_MEMORY) or names_code(name)):
        raise InputError(f"{folder} is of data by code or in memory ({name}): give the data in place of the folder")
    values: dict[str, Any] = {name: settings[name] for name in READ if name in settings}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    values |= {} if data is None else {"data": data}  # which may be a list
    log_probs = Folder(folder).load_tensors(JUDGED)["log_probs"]
    return Run(method=ORAT(), **values), settings["fingerprint"], settings["judged_by"], log_probs


def default_folder(run: Run, **settings: Any) -> Path:
    """The folder of a search without --out: the same data and settings, the same folder."""
    words = in_words(run.data) or ""
    number = hashlib.sha256(json.dumps([run.record(), settings], sort_keys=True).encode()).hexdigest()[:10]
    return SEARCHES / f"{Path(words).stem.replace(': ', '-').replace(' ', '-')}-labels-{number}"
