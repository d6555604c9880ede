"""A folder of a training whose files are replaced whole or not at all, so that stopping anywhere loses nothing."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from orat.core.errors import InputError
from orat.core.files import replace_file


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
