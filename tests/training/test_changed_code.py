"""The code of a user that a run names: changed code does not go on, and a finished run says that its code changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from quick_runs import QUICK, Heard, train_until_stopped
from refusals import assert_refused_in_one_line

import orat
from orat.core.console import SILENT
from orat.core.registry import digest_of, resolve
from orat.methods import AT
from orat.training.run import Run

CODE = {
    "method.py": "import orat\n\nclass Focal(orat.methods.AT):\n    pass\n",
    "nets.py": "from torch.nn import *\n\ndef make(classes):\n    return Sequential(Flatten(), Linear(144, classes))\n",
    "att.py": "def noise(model, x, y, threat, draws):\n    return threat.start(x, draws)\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the user's files in it."""
    for name, code in CODE.items():
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def run_of(tiny: str) -> Run:
    """A quick run of a method, a network and an attack in files, as a new process would make it."""
    for name in [
        name for name in sys.modules if name.startswith(("orat_file_method", "orat_file_nets", "orat_file_att"))
    ]:
        del sys.modules[name]
    fields = QUICK | {"model": "nets.py:make", "attack": "att.py:noise", "attack_steps": None, "epochs": 2}
    return Run(data=tiny, method=resolve("method.py:Focal")(), **{**fields, "milestones": ()})


@pytest.mark.parametrize(("file", "name"), [("method.py", "Focal"), ("nets.py", "make"), ("att.py", "noise")])
def test_a_stopped_run_does_not_go_on_with_changed_code(
    file: str, name: str, tiny: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tiny)
    train_until_stopped(run, folder / "a", 3, monkeypatch)
    (folder / file).write_text(CODE[file] + "\n# changed\n")
    again = run_of(tiny)
    assert again.id == run.id
    words = (
        f"the code of {file}:{name} has changed since {folder}/a began: give --out a new folder, or remove {folder}/a/"
    )
    assert_refused_in_one_line(lambda: orat.train(again, folder / "a", display=SILENT), words)
    (folder / file).write_text(CODE[file].replace("\n", "\r\n"))  # as by git on another machine
    train_until_stopped(run_of(tiny), folder / "a", 3, monkeypatch)
    (folder / file).write_text(CODE[file] + "\n# changed\n")
    run_of(tiny)
    (folder / "a" / "code.json").unlink()
    orat.train(again, folder / "a", display=SILENT)
    assert json.loads((folder / "a" / "code.json").read_text())[f"{file}:{name}"] == digest_of(f"{file}:{name}")


def test_a_finished_run_says_that_its_code_has_changed(tiny: str, folder: Path) -> None:
    result = orat.train(run_of(tiny), "a", display=SILENT)
    for text, line in (
        ("", "a is finished already"),
        (
            "# changed\n",
            "warning: a is finished already, and the code of method.py:Focal has changed since: give --out",
        ),
    ):
        (folder / "method.py").write_text(CODE["method.py"] + text)
        heard = Heard()
        assert orat.train(run_of(tiny), "a", display=heard) == result
        assert heard.lines[0].startswith(line)
        assert len(heard.lines) == 1


def test_the_record_and_the_files_of_a_run_without_own_code_stay(tiny: str, folder: Path) -> None:
    orat.train(Run(data=tiny, method=AT(), **{**QUICK, "epochs": 1, "milestones": ()}), "a", display=SILENT)
    assert not (folder / "a" / "code.json").exists()


def test_the_hash_is_that_of_the_code_that_this_process_read(folder: Path) -> None:
    assert digest_of("nobodys.nets:make") == digest_of("__main__:Focal") == digest_of("gone.py:make") == ""
    before = digest_of("nets.py:make")
    assert before == digest_of(f"{folder}/nets.py:make")
    resolve("nets.py:make")
    (folder / "nets.py").write_text("")
    assert digest_of("nets.py:make") == before
