"""What an evaluation has found so far, sample by sample; on disk, so that a stopped one goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.errors import InputError
from orat.core.files import replace_file

OPEN, BROKEN, STANDS = -1, 0, 1
LETTERS = {OPEN: "?", BROKEN: "0", STANDS: "1"}


class Journal:
    """A verdict for each sample under each attack: stands, broken, or still open."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Tensor] = {}
        self.warnings: list[str] | None = None  # of the probes, once they were made

    def open(self, name: str, before: Tensor) -> Tensor:
        """The verdicts under one attack; what did not stand before it needs no attack."""
        if name not in self.verdicts:
            self.verdicts[name] = torch.where(before, OPEN, BROKEN)
        return self.verdicts[name]

    def save(self) -> None:
        """Keeps what was found; here in memory only."""


class JournalFile(Journal):
    """A journal that is replaced on disk whenever something was found."""

    def __init__(self, path: Path, setting: dict[str, Any]) -> None:
        super().__init__()
        self.path, self.setting = path, setting
        if not path.is_file():
            return
        try:
            content = json.loads(path.read_text())
            there, self.warnings = content["setting"], content["warnings"]
            numbers = {letter: number for number, letter in LETTERS.items()}
            for name, letters in content["verdicts"].items():
                self.verdicts[name] = torch.tensor([numbers[letter] for letter in letters])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path} is damaged: remove it to start the evaluation over") from None
        if there != setting:
            name = next(name for name in setting if there.get(name) != setting[name])
            raise InputError(
                f"{path.parent} holds another evaluation ({name}: {there.get(name)} there, {setting[name]} here): "
                f"give --out a new folder, or --again to start over"
            )

    def save(self) -> None:
        """Replaces the file."""
        verdicts = {
            name: "".join(LETTERS[number] for number in verdict.tolist()) for name, verdict in self.verdicts.items()
        }
        content = {"setting": self.setting, "warnings": self.warnings, "verdicts": verdicts}
        replace_file(self.path, json.dumps(content, indent=1).encode())
