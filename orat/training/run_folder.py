"""The folder of a run: its settings, its result, and who may write into it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from orat.core.domain import UNIT
from orat.core.errors import InputError
from orat.core.files import replace_file
from orat.core.registry import IN_MEMORY, digest_of, names_code
from orat.data.source import Dataset
from orat.training.defaults import BY_DATA
from orat.training.folder import Folder
from orat.training.record import in_words
from orat.training.run import Run, read_run
from orat.training.setup import prepare
from orat.training.toml import as_toml

CODE = "code.json"  # hashes of the files of a user's code


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
