"""The folder of a run: files replaced whole or not at all, so that stopping anywhere loses nothing."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor, nn

from orat.core.domain import UNIT
from orat.core.errors import InputError
from orat.core.files import replace_file
from orat.core.registry import IN_MEMORY, digest_of, in_words, names_code
from orat.data.source import Dataset
from orat.training.defaults import BY_DATA
from orat.training.run import Run, read_run
from orat.training.setup import prepare
from orat.training.text import as_toml

CODE = "code.json"  # hashes of the files of a user's code


class Folder:
    """JSON files, histories of epochs, tensors by name, and the checkpoint resume.pt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = FileLock(path / ".lock")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder, and keeps other processes out of it."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self.lock.acquire(blocking=False)
        except Timeout:
            raise InputError(f"{self.path} is in use by another process with the same command: wait for it") from None
        try:
            yield
        finally:
            self.lock.release()

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Replaces one JSON file."""
        replace_file(self.path / name, json.dumps(content, indent=2).encode() + b"\n")

    def history(self, name: str = "history.jsonl") -> list[dict[str, Any]]:
        """The records of the epochs so far, without a last line that a kill left unfinished."""
        file = self.path / name
        whole, _, _ = file.read_text().rpartition("\n") if file.is_file() else ("", "", "")
        return [json.loads(line) for line in whole.splitlines()]

    def truncate(self, name: str, epoch: int) -> None:
        """Drops the records of a history from this epoch on."""
        records = [record for record in self.history(name) if record["epoch"] < epoch]
        replace_file(self.path / name, "".join(json.dumps(record) + "\n" for record in records).encode())

    def append(self, name: str, record: dict[str, Any]) -> None:
        """Adds one record to a history."""
        with (self.path / name).open("a") as file:
            file.write(json.dumps(record) + "\n")

    def save_resume(self, content: dict[str, Any]) -> None:
        """Replaces the checkpoint, after the histories that it counts on have reached the disk."""
        for file in self.path.glob("*.jsonl"):
            with file.open("a") as history:
                os.fsync(history.fileno())
        buffer = io.BytesIO()  # through memory, because torch reports a full disk as no OSError
        torch.save(content, buffer)
        replace_file(self.path / "resume.pt", buffer.getvalue())

    def remove_resume(self) -> None:
        """Removes the checkpoint."""
        (self.path / "resume.pt").unlink(missing_ok=True)

    def can_resume(self) -> bool:
        """Whether there is a checkpoint."""
        return (self.path / "resume.pt").is_file()

    def load_resume(self, device: torch.device, form: int, fingerprint: str) -> dict[str, Any] | None:
        """The checkpoint, if there is one; refuses a checkpoint of another format, device or data set."""
        file = self.path / "resume.pt"
        if not self.can_resume():
            return None
        try:
            saved = torch.load(file, map_location=device, weights_only=True)
        except (RuntimeError, pickle.UnpicklingError, EOFError):
            raise InputError(f"{file} is damaged: remove it to start the run over") from None
        if saved.get("format") != form:
            raise InputError(
                f"{file} is from an incompatible version of orat (format {saved.get('format')}, not {form}): "
                "finish the run with that version, or give --out a new folder"
            )
        if saved["device"] != device.type:
            raise InputError(
                f"{self.path} was started on {saved['device']}, not on {device.type}: "
                f"go on with --device {saved['device']}, or give --out a new folder"
            )
        if saved["fingerprint"] != fingerprint:
            raise InputError(
                f"the data of {self.path} changed since it was stopped "
                f"({saved['fingerprint']} then, {fingerprint} now): bring it back, or give --out a new folder"
            )
        return saved

    def save_tensors(self, name: str, tensors: dict[str, Tensor]) -> None:
        """Tensors by name as one safetensors file."""
        plain = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}  # no shared memory
        replace_file(self.path / f"{name}.safetensors", tensor_bytes(plain))

    def has_tensors(self, name: str) -> bool:
        """Whether there is a safetensors file of this name."""
        return (self.path / f"{name}.safetensors").is_file()

    def remove_tensors(self, name: str) -> None:
        """Removes the safetensors file of a name."""
        (self.path / f"{name}.safetensors").unlink(missing_ok=True)

    def load_tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of one safetensors file."""
        file = self.path / f"{name}.safetensors"
        if not file.is_file():
            raise InputError(
                f"there is no {file.name} in {self.path}: the run is not finished; run the same train command"
            )
        return load_tensors(file.read_bytes())


class RunFolder(Folder):
    """run.json has the settings, config.json shapes and classes, history.jsonl the epochs, result.json the result."""

    @contextmanager
    def claimed(self, run: Run, train: Dataset) -> Iterator[None]:
        """Makes the folder this run's, for this process alone; refuses a folder with anything else in it."""
        self.check(run)
        config, record, toml = config_of(run, train), run.record(), as_toml(run).encode()  # may refuse the run
        with self.locked():
            self.write_json("config.json", config)
            if code := code_of(run):
                self.write_json(CODE, code)
            self.write_json("run.json", record)
            replace_file(self.path / "run.toml", toml)
            yield

    def begun(self, run: Run) -> Run:
        """The run with fields left None as the folder's run has them, so that the same command resumes anywhere."""
        if not (self.path / "run.json").is_file():
            return run
        there = read_run(self.path)
        if run.model is None and isinstance(there.model, str) and not_by_name(there.model):
            raise InputError(f"{self.path} trains the model {there.model}: give the same command or call again")
        return run.filled({name: getattr(there, name) for name in (*BY_DATA, "image_size")})

    def check(self, run: Run) -> None:
        """Refuses a folder that belongs to another run or to something else."""
        if self.path.is_file():
            raise InputError(f"{self.path} is a file: give --out a new folder")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        if not (self.path / "run.json").is_file():
            if all(file.name.startswith(".") or file.name in ("config.json", CODE) for file in self.path.iterdir()):
                return  # stopped before its first file was whole
            raise InputError(f"{self.path} has files in it, but none of a run: give --out a new or empty folder")
        there = read_run(self.path)
        if there != run:
            raise InputError(f"{self.path} belongs to another run ({difference(there, run)}): give --out a new folder")
        if self.can_resume() and (name := self.changed_code(run)):
            raise InputError(
                f"the code of {name} has changed since {self.path} began: give --out a new folder, or remove "
                f"{self.path / CODE} to go on with the new code"
            )

    def changed_code(self, run: Run) -> str | None:
        """The name of the first part of the run whose code is not that of the folder."""
        file = self.path / CODE
        there = json.loads(file.read_text()) if file.is_file() else {}
        return next((name for name, digest in code_of(run).items() if there.get(name, digest) != digest), None)

    def finished_words(self, run: Run) -> str:
        """That the run is finished, as a warning where its code has changed since."""
        name = self.changed_code(run)
        if name is None:
            return f"{self.path} is finished already"
        other = f"the code of {name} has changed since: give --out a new folder to train with the new code"
        return f"warning: {self.path} is finished already, and {other}"

    def result(self) -> dict[str, Any] | None:
        """The result of a finished run."""
        file = self.path / "result.json"
        return json.loads(file.read_text()) if file.is_file() else None

    def finished(self, run: Run) -> dict[str, Any] | None:
        """The result, if there is one; refuses other data in memory, which a record does not tell apart."""
        result = self.result()
        if result is None or isinstance(run.data, str):
            return result
        if prepare(run).train.fingerprint() != result["fingerprint"]:
            raise InputError(f"{self.path} is finished with other data than those given: give --out a new folder")
        return result

    def finish(self, result: dict[str, Any]) -> None:
        """Writes the result, whose presence means done, and removes what only an unfinished run needs."""
        self.write_json("result.json", result)
        self.remove_resume()


def not_by_name(model: str) -> bool:
    """Whether a recorded network is code or an object in memory, which a record alone never brings back."""
    return names_code(model) or model.startswith(IN_MEMORY)


def config_of(run: Run, train: Dataset) -> dict[str, Any]:
    """All that a user of the network needs besides the weights: inputs, classes, and the threat of the training."""
    config = {"model": in_words(run.model), "shape": train.shape, "classes": train.classes}
    inputs = "[0, 1]" if train.domain == UNIT else list(train.features or map(str, range(train.shape[0])))
    return config | {"inputs": inputs, "threat": run.threat_in(train.domain).record()}


def default_folder(run: Run) -> Path:
    """The folder of a run without --out: the same run, the same folder."""
    name = Path(in_words(run.data) or "").stem.replace(": ", "-").replace(" ", "-")
    return Path("runs") / f"{name}-{run.method_name.rpartition(':')[2]}-{run.id}"


def difference(there: Run, here: Run, among: Iterable[str] | None = None) -> str | None:
    """The first field, of all or among these, in which two runs differ, in words."""
    old, new = there.record(), here.record()
    names = (name for name in among or {**old, **new} if old.get(name) != new.get(name))
    return next((f"{name}: {old.get(name)} there, {new.get(name)} here" for name in names), None)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of all that the model has learned."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def code_of(run: Run) -> dict[str, str]:
    """A hash of the file of each part of a run that is code, by its name."""
    names = [run.method_name, run.data, run.model, run.attack]
    digests = {name: digest_of(name) for name in names if isinstance(name, str) and names_code(name)}
    return {name: digest for name, digest in digests.items() if digest}
