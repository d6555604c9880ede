"""A file of settings: read as flags, overridden by flags, written into every run folder, and trusted with no code."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from quick_runs import EVERY, JUDGING, QUICK, assert_same, quick
from refusals import wrong
from torch import nn

from orat.attacks import PGD
from orat.cli.main import main, parse
from orat.core.console import SILENT
from orat.core.options import option
from orat.methods import AT, ORAT, Method
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.text import as_toml, declared_fields, run_from, texts_in
from orat.training.train import train


def parsed(text: str, folder: Path, *words: str) -> Run:
    """The run of a file with this text, and of these words of the command line."""
    file = folder / "settings.toml"
    file.write_text(text)
    return run_from(parse(["train", "--config", str(file), *words]).texts)


def given_back(run: Run, folder: Path, *words: str) -> Run:
    """The run that the command line makes of the run's own file."""
    return parsed(as_toml(run), folder, *words)


def test_keys_are_flags_and_flags_override_them(tmp_path: Path) -> None:
    text = 'method = "orat"\nm = 0.2\neps = "8/255"\nbatch-size = 16\nattack_steps = 4\nmilestones = [2, 3]\n'
    text += "normalize = true"
    run = parsed(text, tmp_path, "--attack-steps", "5")
    flags = "--method orat --m 0.2 --eps 8/255 --batch-size 16 --attack-steps 5 --milestones 2,3 --normalize"
    assert run == run_from(parse(["train", *flags.split()]).texts)


def test_a_file_says_where_and_how_a_run_is_executed(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('method = "at"\nout = "here"\ndata-dir = "there"\ndevice = "cpu"\nengine = "plain"')
    arguments = parse(["train", "--config", str(file), "--engine", "folded"])
    assert (arguments.out, arguments.data_dir, arguments.device, arguments.engine) == ("here", "there", "cpu", "folded")
    assert set(arguments.texts) == {"method"}


def test_another_method_in_the_command_leaves_out_the_fields_of_the_method_of_the_file(tmp_path: Path) -> None:
    run = given_back(Run(method=ORAT(m=0.2), epochs=3), tmp_path, "--method", "at")
    assert run == Run(method=AT(), epochs=3)


def test_values_of_vary_override_the_file(tmp_path: Path, tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(as_toml(quick(tiny, ORAT(m=0.2), epochs=1, milestones=())))
    words = ["--vary", "method=st,at", "--out", str(tmp_path / "many"), "--device", "cpu", "--quiet"]
    assert main(["train", "--config", str(file), *words]) == 0
    records = [RunFolder(tmp_path / "many" / f"method-{name}").path / "run.toml" for name in ("st", "at")]
    assert [tomllib.loads(file.read_text())["method"] for file in records] == ["st", "at"]
    capsys.readouterr()


def test_a_search_starts_from_a_file(tmp_path: Path, tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(as_toml(quick(tiny, AT(), epochs=1, milestones=())))
    search = ["search", "--config", str(file), "--over", "lr=0.01,0.05", "--out", str(tmp_path / "search")]
    assert main([*search, "--device", "cpu", "--quiet"]) == 0
    assert "lr" in capsys.readouterr().out
    assert "both --lr 0.02 and --over lr" in wrong(capsys, *search, "--lr", "0.02")


def test_the_file_of_a_run_trains_the_same_run_to_the_bit(tmp_path: Path, tiny: str) -> None:
    train(quick(tiny, JUDGING, noise="symmetric", noise_rate=0.2), tmp_path / "x", device="cpu", display=SILENT)
    again = ["train", "--config", str(tmp_path / "x" / "run.toml"), "--out", str(tmp_path / "y"), "--device", "cpu"]
    assert main([*again, "--quiet", "--json"]) == 0
    assert (tmp_path / "y" / "run.json").read_bytes() == (tmp_path / "x" / "run.json").read_bytes()
    assert (tmp_path / "y" / "run.toml").read_bytes() == (tmp_path / "x" / "run.toml").read_bytes()
    assert_same(tmp_path / "x", tmp_path / "y")


@pytest.mark.parametrize("data", ["sample", "cifar10", "photos/"])
@pytest.mark.parametrize("method", EVERY.values(), ids=EVERY)
def test_the_file_of_every_method_gives_the_run_back(method: Method, data: str, tmp_path: Path) -> None:
    run = Run(data=data, method=method, **{**QUICK, "image_size": (32, 48), "frozen": ("age", "sex")})
    again = given_back(run, tmp_path)
    assert (again.record(), again.id) == (run.record(), run.id)


@dataclass(frozen=True)
class Odd(AT):
    """A method with a field of every type."""

    count: int = option(1, "a number with\nlines and \x07 a bell")
    share: float | None = option(0.5, "a share")
    rank: int | float = 1
    switch: bool = False
    word: str = ""
    maybe: str | None = None
    choice: Literal["a", "b"] = "a"
    numbers: tuple[float, ...] = ()
    pair: tuple[int, int] | None = None
    names: tuple[str, ...] = ("none",)


ODD = f"{__name__}:Odd"
LETTERS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(
    method=st.builds(
        Odd,
        count=st.integers(-9, 9),
        share=st.none() | NUMBERS,
        rank=st.integers() | NUMBERS,
        switch=st.booleans(),
        word=LETTERS,
        maybe=st.none() | LETTERS.filter(lambda text: text != "none"),
        choice=st.sampled_from("ab"),
        numbers=st.lists(NUMBERS).map(tuple),
        pair=st.none() | st.tuples(st.integers(), st.integers()),
        names=st.lists(LETTERS.filter(lambda text: "," not in text and text.strip() == text != "")).map(tuple),
    ),
    labels=LETTERS.filter(lambda text: text != "none"),
)
@example(method=Odd(word='"\\\x7f\u2028😀\n\t'), labels='C:\\data\\"ü"')
@settings(max_examples=25, deadline=None)
def test_a_value_of_every_type_comes_back(method: Odd, labels: str) -> None:
    run = Run(method=method, labels=labels, lr=1e-05)
    table = tomllib.loads(as_toml(run))
    assert table.pop("method") == ODD
    assert run_from(texts_in(table, declared_fields((Odd, Run)), ODD) | {"method": ODD}).record() == run.record()


IN_MEMORY: dict[str, dict[str, Any]] = {
    "data": {"data": (torch.zeros(4, 2), torch.zeros(4))}, "model": {"model": nn.Identity()},
    "attack": {"attack": PGD(3)}, "names": {"method": Odd(names=("a,b",))},
}  # fmt: skip


@pytest.mark.parametrize("name", IN_MEMORY)
def test_the_file_of_a_run_with_an_object_in_memory_trains_nothing_without_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run(**{"method": AT(), **IN_MEMORY[name]})
    Path("run.toml").write_text(as_toml(run))
    line = wrong(capsys, "train", "--config", "run.toml", *(["--trust"] if name == "names" else []))
    assert line.startswith(f"orat: run.toml: the {name} of the run was an object in memory (")
    assert line.endswith(f"): hand it in again from Python, or give --{name}\n")
    assert [file.name for file in tmp_path.iterdir()] == ["run.toml"]


def test_a_flag_takes_the_place_of_an_object_in_memory(tmp_path: Path) -> None:
    run = Run(method=AT(), data=nn.Identity(), model=nn.Identity(), epochs=3)
    assert given_back(run, tmp_path, "--data", "mnist", "--model", "lenet").epochs == 3


@pytest.mark.parametrize("module", ["__main__", __name__])
def test_a_method_of_a_script_or_a_function_is_handed_in_again(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @dataclass(frozen=True)
    class Mine(AT):
        gamma: float = 2.0

    monkeypatch.setattr(Mine, "__module__", module)
    (tmp_path / "run.toml").write_text(as_toml(Run(method=Mine(), epochs=3)))
    line = wrong(capsys, "train", "--config", str(tmp_path / "run.toml"))
    assert "the method of the run was an object in memory (" in line
    assert line.endswith("Mine): hand it in again from Python, or give --method\n")
    assert given_back(Run(method=Mine(), epochs=3), tmp_path, "--method", "at").epochs == 3


BAD = {
    "epoch = 3": "unknown key 'epoch': did you mean 'epochs'?",
    "bach-size = 3": "unknown key 'bach-size': did you mean 'batch_size'?",
    "m = 0.2": "m is for aorr, orat, not for at: leave it out",
    'epochs = "three"': "epochs = \"three\": 'three' is not a whole number",
    "epochs = 2.5": "epochs = 2.5: '2.5' is not a whole number",
    "epochs = true": "epochs = true: true and false are for switches",
    "epochs = [1]": "epochs = [1]: give one value, not an array",
    "normalize = 1": "normalize = 1: unknown answer '1'",
    "labels = 7": "labels = 7: give a text in quotes",
    "device = 0": "device = 0: give a text in quotes",
    "milestones = [1.5]": "milestones = [1.5]: '1.5' is not a whole number",
    'frozen = ["a,b"]': 'frozen = ["a,b"]: give texts without commas',
    "lr = 2026-01-01": "lr = 2026-01-01: give a number, a text in quotes",
    "[attack]\neps = 0.1": "[attack] begins a table: write all keys without tables",
    "image_size = [32, 32, 3]": "image_size = [32, 32, 3]: '32x3' is not a whole number",
    "lr = 1\nlr = 2": "not TOML: Cannot overwrite a value (at line 3, column 7)",
    "batch-size = 1\nbatch_size = 2": "batch_size is given twice",
    "eps = 8/255": "not TOML: Expected newline or end of document after a statement (at line 2, column 8)",
    "model = resnet18": "not TOML: Invalid value (at line 2, column 9)",
    'norm = "l3"': "norm = \"l3\": unknown norm 'l3'",
    "\xff": "not TOML: Invalid statement (at line 2, column 1)",
}


@pytest.mark.parametrize(("line", "words"), BAD.items(), ids=BAD)
def test_a_bad_file_is_refused_in_one_line(
    line: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text(f'method = "at"\n{line}\n')
    refusal = wrong(capsys, "train", "--config", "bad.toml")
    assert refusal.startswith(f"orat: bad.toml: {words}"), refusal
    assert [file.name for file in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read bad.toml: No such file"),
        (b"\xff\xfe", "bad.toml: not a text file"),
        (b"epochs = 3", "--method is not given"),
        (b'method = "orta"', "bad.toml: unknown method 'orta': did you mean 'orat'?"),
        (b"method = 1", "bad.toml: method = 1: give a text in quotes"),
        (b'method = "at"\nepochs = 0', "epochs = 0: give 1 or more"),
    ],
)
def test_a_file_that_is_none_is_refused(
    content: bytes | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("bad.toml").write_bytes(content)
    assert words in wrong(capsys, "train", "--config", "bad.toml")
    assert not Path("runs").exists()


CODE = """
import pathlib
pathlib.Path("mark").touch()
import torch
from orat.methods import AT
class Mine(AT): pass
def make(shape, classes): return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(classes))
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with code that leaves a mark when imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("foreign.py").write_text(CODE)
    yield
    sys.modules.pop("foreign", None)


@pytest.mark.parametrize("code", ["foreign:Mine", "foreign.py:Mine", "./foreign.py:Mine"])
@pytest.mark.parametrize("name", ["method", "model", "attack", "data"])
@pytest.mark.parametrize("more", [[], ["--help"], ["--vary", "seed=0,1"], ["--method", "st"]], ids=" ".join)
def test_code_that_only_the_file_names_never_runs(
    name: str, code: str, more: list[str], foreign: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("run.toml").write_text(f'{name} = "{code}"\n' + ("" if name == "method" else 'method = "at"'))
    if (name, more) != ("method", ["--method", "st"]):
        refusal = wrong(capsys, "train", "--config", "run.toml", *more)
        assert f"{name} {code} is code that a file names: give --{name} {code} in this command, or --trust" in refusal
    else:
        assert parse(["train", "--config", "run.toml", *more]).texts == {"method": "st"}
    assert not Path("mark").exists()
    assert not Path("runs").exists()


@pytest.mark.parametrize("words", [["--method", "foreign:Mine"], ["--trust"]], ids=" ".join)
def test_code_runs_if_the_command_names_it_or_trusts_the_file(words: list[str], foreign: None) -> None:
    Path("run.toml").write_text('method = "foreign:Mine"')
    assert parse(["train", "--config", "run.toml", *words]).texts == {"method": "foreign:Mine"}
    assert Path("mark").exists()


def test_an_installed_data_set_with_a_colon_in_its_name_is_no_code(tmp_path: Path) -> None:
    assert parsed('method = "at"\ndata = "scrambled:cifar10"', tmp_path).data == "scrambled:cifar10"
