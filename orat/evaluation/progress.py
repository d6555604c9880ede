"""Progress of an evaluation: forward passes for the bar, and a journal on disk for resuming."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks.base import GRADIENT
from orat.core.console import Bar
from orat.core.errors import InputError
from orat.core.files import replace_file
from orat.core.types import Images

OPEN, BROKEN, ROBUST = -1, 0, 1  # verdicts
LETTERS = {OPEN: "?", BROKEN: "0", ROBUST: "1"}


@contextmanager
def metered(model: nn.Module, bar: Bar) -> Iterator[None]:
    """Advances a bar by the forward passes of a network; TorchScript has no hooks to count them."""
    if isinstance(model, torch.jit.ScriptModule):
        yield
        return

    def advance(module: nn.Module, inputs: tuple[Images, ...]) -> None:
        bar.advance(len(inputs[0]) * (GRADIENT if inputs[0].requires_grad else 1))

    hook = model.register_forward_pre_hook(advance)
    try:
        yield
    finally:
        hook.remove()


class Journal:
    """A verdict per sample and attack: robust, broken or open; in memory."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Tensor] = {}
        self.warnings: list[str] | None = None  # of the gradient checks, once they ran

    def open(self, name: str, before: Tensor) -> Tensor:
        """The verdicts of one attack; samples broken before the attack count as broken."""
        if name not in self.verdicts:
            self.verdicts[name] = torch.where(before, OPEN, BROKEN)
        return self.verdicts[name]

    def save(self) -> None:
        """Stores the verdicts; nothing to do in memory."""


class JournalFile(Journal):
    """A journal in a file, which every save replaces."""

    def __init__(self, path: Path, setting: dict[str, Any]) -> None:
        super().__init__()
        self.path, self.setting = path, json.loads(json.dumps(setting))
        if not path.is_file():
            return
        try:
            content = json.loads(path.read_text())
            there, self.warnings = dict(content["setting"]), content["warnings"]
            numbers = {letter: number for number, letter in LETTERS.items()}
            for name, letters in content["verdicts"].items():
                self.verdicts[name] = torch.tensor([numbers[letter] for letter in letters])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path} is damaged: remove it to start the evaluation over") from None
        self.check_setting(there)

    def check_setting(self, there: dict[str, Any]) -> None:
        """Refuses the journal of another evaluation, or of an incompatible version of orat."""
        for name in there | self.setting:
            if there.get(name) != self.setting.get(name):
                raise InputError(
                    f"{self.path.parent} holds another evaluation ({name}: {there.get(name)} there, "
                    f"{self.setting.get(name)} here): give --out a new folder, or --again to start over"
                )

    def save(self) -> None:
        """Replaces the file."""
        verdicts = {
            name: "".join(LETTERS[number] for number in verdict.tolist()) for name, verdict in self.verdicts.items()
        }
        content = {"setting": self.setting, "warnings": self.warnings, "verdicts": verdicts}
        replace_file(self.path, json.dumps(content, indent=1).encode())
