"""A user's network: what is loaded, and that every failure is one clear line."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from orat.core.errors import InputError
from orat.models.external import load_external

CPU = torch.device("cpu")
SCRIPT = """
from __future__ import annotations
from dataclasses import dataclass
from torch import nn
import neighbor

@dataclass
class Sizes:
    inputs: int = neighbor.INPUTS

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(Sizes().inputs, 3)

    def forward(self, x):
        return self.body(x)

def build():
    return Net()

def resting():
    return Net().eval()

def wrapped():
    return nn.DataParallel(Net())

def breaks():
    raise KeyError("no such\\nsetting")

def leaves():
    raise SystemExit(2)

def asks(classes, depth):
    return Net()

def wide(num_classes, channels):
    return nn.Linear(channels, num_classes)

def two():
    return nn.Linear(2, 2)

def number():
    return 5

instance = Net()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, with somebody's script and package in it; Python's own state is put back."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "neighbor.py").write_text("INPUTS = 4\n")
    package = tmp_path / "somebodys"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text("from torch import nn\n\ndef build():\n    return nn.Linear(2, 2)\n")
    (package / "needy.py").write_text("import not_installed_anywhere\n")
    (package / "broken.py").write_text("def build(:\n")
    (package / "attribute.py").write_text("import math\nmath.no_such_name\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("orat_file_", "somebodys", "neighbor"))]:
        del sys.modules[name]


def loaded(spec: str, weights: Path | None = None, inputs: int = 4) -> nn.Module:
    """The network on the CPU, for rows of four numbers and three classes."""
    return load_external(spec, weights, CPU, (inputs,), 3)


def refusal(spec: str, weights: Path | None = None) -> str:
    """The one line that says what is wrong."""
    with pytest.raises(InputError) as caught:
        loaded(spec, weights)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def saved(folder: Path, content: object) -> Path:
    """A file by torch.save."""
    torch.save(content, folder / "weights.pt")
    return folder / "weights.pt"


def tensors() -> dict[str, torch.Tensor]:
    """Weights for the script's network."""
    return {"body.weight": torch.full((3, 4), 0.5), "body.bias": torch.arange(3.0)}


@pytest.mark.parametrize("spec", ["somebodys.nets:build", "somebodys/nets.py:build"])
def test_a_network_comes_from_a_package_in_the_current_directory_or_from_a_file(folder: Path, spec: str) -> None:
    assert loaded(spec, inputs=2)(torch.rand(5, 2)).shape == (5, 2)


def test_an_installed_package_is_found_too() -> None:
    assert isinstance(loaded("torch.nn:Identity"), nn.Identity)


def test_a_name_may_go_through_a_class(folder: Path) -> None:
    (folder / "inside.py").write_text("from torch import nn\nclass Nets:\n    small = nn.Identity\n")
    for spec in ("inside:Nets.small", "inside.py:Nets.small"):
        assert isinstance(loaded(spec), nn.Identity)
    del sys.modules["inside"]


def test_a_script_may_import_its_neighbors_from_anywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert loaded(f"{folder}/script.py:build")(torch.rand(5, 4)).shape == (5, 3)


def test_a_script_may_be_called_like_a_module_in_use(folder: Path) -> None:
    (folder / "types.py").write_text("from torch import nn\nbuild = nn.Identity\n")
    assert isinstance(loaded("types.py:build"), nn.Identity)
    assert hasattr(sys.modules["types"], "ModuleType")


def test_a_network_comes_in_evaluation_mode(folder: Path) -> None:
    assert not loaded("script.py:build").training
    assert not loaded("script.py:resting").training


def test_a_function_gets_the_shape_and_the_classes_of_the_data(folder: Path) -> None:
    assert loaded("script.py:wide", inputs=7)(torch.rand(5, 7)).shape == (5, 3)


def test_the_network_goes_to_the_device(folder: Path) -> None:
    model = load_external("script.py:build", None, torch.device("meta"), (4,), 3)
    assert {p.device.type for p in model.parameters()} == {"meta"}


@pytest.mark.parametrize("holder", [None, "state_dict", "model_state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_weights_are_found_in_the_usual_checkpoints(folder: Path, holder: str | None, prefix: str) -> None:
    named = {prefix + name: value for name, value in tensors().items()}
    weights = saved(folder, named if holder is None else {"epoch": 3, holder: named})
    model = loaded("script.py:build", weights)
    assert all(torch.equal(value, tensors()[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("prefix", ["", "module."])
def test_weights_are_read_from_safetensors(folder: Path, prefix: str) -> None:
    save_file({prefix + name: value for name, value in tensors().items()}, folder / "weights.safetensors")
    model = loaded("script.py:build", folder / "weights.safetensors")
    assert torch.equal(model.body.bias, torch.arange(3.0))


def test_a_network_that_is_itself_wrapped_keeps_the_prefix(folder: Path) -> None:
    weights = saved(folder, {f"module.{name}": value for name, value in tensors().items()})
    assert torch.equal(loaded("script.py:wrapped", weights).module.body.bias, torch.arange(3.0))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("somebodys.nets", "'somebodys.nets' names no function: give package.module:function"),
        (":build", "names no function"),
        ("script.py:", "names no function"),
        ("nobodys.nets:build", "there is no module 'nobodys.nets'"),
        ("somebodys.other:build", "there is no module 'somebodys.other'"),
        ("missing.py:build", "there is no file missing.py"),
        ("somebodys.needy:build", "importing somebodys.needy fails with ModuleNotFoundError: No module named 'not_in"),
        ("somebodys.broken:build", "importing somebodys.broken fails with SyntaxError"),
        ("somebodys/broken.py:build", "importing somebodys/broken.py fails with SyntaxError"),
        ("somebodys.nets:biuld", "unknown name in somebodys.nets: 'biuld': did you mean 'build'?"),
        ("somebodys.attribute:build", "importing somebodys.attribute fails with AttributeError: module 'math'"),
        ("some-body:build", "model 'some-body:build' names no function"),
        ("script.py:biuld", "unknown name in script.py: 'biuld': did you mean 'build'?"),
        ("script.py:breaks", "script.py:breaks fails with KeyError: 'no such"),
        ("script.py:leaves", "script.py:leaves fails with SystemExit: 2"),
        ("script.py:asks", "script.py:asks needs depth: give a default to each parameter other than"),
        ("script.py:two", "script.py:two on inputs of shape (2, 4) fails with RuntimeError: mat1 and mat2 shapes"),
        ("script.py:number", "script.py:number returns a int, not a network: give a function"),
        ("script.py:instance", "script.py:instance is a Net, not a function"),
        ("neighbor.py:INPUTS", "neighbor.py:INPUTS is a int, not a function"),
        ("neighbor.py:build", "unknown name in neighbor.py: 'build'"),
    ],
)
def test_a_function_that_gives_no_network_is_refused_in_one_line(folder: Path, spec: str, words: str) -> None:
    assert words in refusal(spec)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"body.weight": torch.zeros(3, 4)}, "missing body.bias; unexpected none; give the weights"),
        ({f"layer{i}": torch.zeros(1) for i in range(5)}, "unexpected layer0, layer1, layer2 and 2 more"),
        (tensors() | {"module.body.bias": torch.zeros(3)}, "missing none; unexpected module.body.bias"),
        (tensors() | {"body.bias": torch.zeros(7)}, "size mismatch for body.bias"),
        ({"net": tensors()}, "unexpected net"),
        ([torch.zeros(3)], "holds a list, no tensors by name"),
        ({0: torch.zeros(3)}, "no tensors by name"),
    ],
)
def test_weights_that_do_not_fit_are_refused_in_one_line(folder: Path, content: object, words: str) -> None:
    assert words in refusal("script.py:build", saved(folder, content))


def test_a_missing_weights_file_is_refused(folder: Path) -> None:
    assert "there is no weights file nowhere.pt" in refusal("script.py:build", Path("nowhere.pt"))


class Malicious:
    """Leaves a file where it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch code_has_run",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_in_a_pickle_does_not_run(folder: Path, protocol: int) -> None:
    file = folder / "weights.pkl"
    file.write_bytes(pickle.dumps({"state_dict": Malicious()}, protocol))
    assert "refused, since reading it could run code; if you trust it, save it with" in refusal("script.py:build", file)
    assert not (folder / "code_has_run").exists()
    pickle.loads(file.read_bytes())
    assert (folder / "code_has_run").exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_torch_file_does_not_run(folder: Path, zipped: bool) -> None:
    torch.save({"state_dict": Malicious()}, folder / "weights.pt", _use_new_zipfile_serialization=zipped)
    line = refusal("script.py:build", folder / "weights.pt")
    assert f"asks for {os.name}.system: refused" in line
    assert not (folder / "code_has_run").exists()


def test_a_whole_pickled_network_is_refused_with_what_it_asks_for(folder: Path) -> None:
    assert "asks for torch.nn.modules.linear.Linear: refused" in refusal(
        "script.py:build", saved(folder, nn.Linear(2, 2))
    )


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
@pytest.mark.parametrize("content", [b"", b"hello world, this is no checkpoint", b"\x80\x02}", b"PK\x03\x04"])
def test_a_file_of_something_else_is_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    line = refusal("script.py:build", folder / name)
    assert str(folder / name) in line
    assert "save it with torch.save(" in line
