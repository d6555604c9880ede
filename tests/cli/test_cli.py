"""The command line as a user meets it: real processes, real files, one line for what is wrong."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import fields
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from quick_runs import hears_ctrl_c
from refusals import wrong

import orat
from orat.cli import main as main_module
from orat.cli import renamed
from orat.cli.flags import GROUPS
from orat.cli.main import main
from orat.core.options import flag
from orat.methods import METHODS
from orat.training.run import Run
from orat.training.run_folder import RunFolder

QUICK = [
    "--model", "mlp-16", "--epochs", "2", "--lr", "0.1", "--batch-size", "32", "--eps", "26/255",
    "--augment", "none", "--attack-steps", "3", "--warmup", "0",
]  # fmt: skip


def command(*arguments: str) -> list[str]:
    """The installed command, as a process of its own."""
    return [str(Path(sys.executable).with_name("orat")), *arguments]


COMMANDS = (
    "", "train", "search", "evaluate", "labels", "labels find", "labels fix", "labels undo", "list", "list methods",
    "list attacks", "list models", "data", "demo",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_does_not_import_torch(command: str) -> None:
    """Without torch, which takes seconds, every help text takes a tenth of a second."""
    arguments = [*command.split(), "--help"]
    script = (
        "import sys\nfrom orat.cli.main import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: print('torch' in sys.modules, 'numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "False False\n"
    assert "usage: orat" in done.stdout


def helped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The help text of a command."""
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


def flags_in(text: str) -> set[str]:
    """The flags that a help text explains."""
    return set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("command", ["train", "search"])
def test_every_field_of_a_run_has_a_flag_in_a_group_and_methods_add_theirs(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = helped(capsys, command)
    own = {flag(field.name) for field in fields(Run)}
    assert own <= flags_in(plain)
    titles = re.findall(r"^([a-z ]+):$", plain, re.MULTILINE)
    assert titles == ["options", "run", *GROUPS, "execution"]
    for method in METHODS:
        more = flags_in(helped(capsys, command, "--method", method)) - flags_in(plain)
        assert more == {flag(field.name) for field in fields(METHODS[method])}


def test_every_field_of_a_run_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted([*grouped, "method"]) == sorted(field.name for field in fields(Run))


def test_methods_that_vary_bring_their_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"--m", "--alpha"} <= flags_in(helped(capsys, "train", "--vary", "method=aorr,wmmr"))
    assert {"--m", "--beta"} <= flags_in(helped(capsys, "search", "--over", "method=orat,mart"))


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"orat {orat.__version__}\n"


@pytest.mark.parametrize(("old", "new"), renamed.COMMANDS.items())
def test_an_old_command_points_out_its_new_name_and_does_the_same(
    old: str, new: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ((*old.split(), "--help"), (*new, "--help")):
        with pytest.raises(SystemExit):
            main(list(arguments))
    captured = capsys.readouterr()
    assert captured.err == f"orat {old} is now orat {' '.join(new)}\n"
    first, second = captured.out[: len(captured.out) // 2], captured.out[len(captured.out) // 2 :]
    assert first == second
    assert f"usage: orat {' '.join(new)}" in first


@pytest.mark.parametrize("name", renamed.REMOVED)
def test_what_was_removed_is_answered_with_its_replacement(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "--method", "orat", name, "x"] if name.startswith("--") else [name]
    assert wrong(capsys, *arguments) == f"orat: {name} was removed: {renamed.REMOVED[name]}\n"


def test_a_renamed_engine_is_answered_with_its_new_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give --engine folded" in wrong(capsys, "train", "--method", "at", "--engine", "replica")


def test_a_plug_in_is_imported_for_its_own_command_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point = EntryPoint("broken", "no_such_module:add", "orat.commands")
    monkeypatch.setattr(main_module, "plugins", lambda group: {"broken": point})
    assert main(["list", "attacks"]) == 0
    assert "no_such_module" in helped(capsys)
    with pytest.raises(ModuleNotFoundError):
        main(["broken"])


OWN = """
from dataclasses import dataclass
from orat.core.options import option
from orat.methods import AT

@dataclass(frozen=True)
class Twice(AT):
    strength: float = option(2.0, "times the loss")

    def loss(self, step):
        return self.strength * super().loss(step)
"""


def test_a_users_own_method_is_trained_by_its_import_path_with_flags_of_its_own(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_method.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    method = ["--method", "own_method:Twice"]
    assert "--strength" in flags_in(helped(capsys, "train", *method))
    train = ["train", "--data", tiny, *method, "--strength", "3", *QUICK, "--out", "own", "--quiet", "--json"]
    results = []
    for _ in range(2):  # the second time, the run is there already
        assert main(train) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1]
    record = json.loads(Path("own/run.json").read_text())
    assert record["method"] == {"name": "own_method:Twice", "strength": 3.0}
    assert "did you mean 'Twice'" in wrong(capsys, "train", "--method", "own_method:Trice")


def test_train_then_evaluate_agree_and_print_json(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "a")
    train = ["train", "--data", tiny, "--method", "orat", "--m", "0.2", "--k", "290", *QUICK, "--out", out, "--quiet"]
    assert main([*train, "--noise", "symmetric", "--noise-rate", "0.2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["eps"] == 26 / 255
    assert result["folder"] == out
    assert main(["evaluate", out, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    worst = report["accuracy"].pop("worst-case")
    assert report["accuracy"] == {name: value for name, value in result["last"].items() if name != "epoch"}
    assert worst <= min(report["accuracy"].values())
    assert (report["examples"], report["norm"], report["warnings"]) == (90, "linf", [])
    assert main(["evaluate", out, "--attacks", "pgd10", "--examples", "20", "--eps", "0.2", "--json"]) == 0
    few = json.loads(capsys.readouterr().out)
    assert (few["examples"], few["eps"], set(few["accuracy"])) == (20, 0.2, {"natural", "pgd10", "worst-case"})


def test_tables_say_radius_norm_and_number_of_images(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--data", tiny, "--method", "at", *QUICK, "--out", str(tmp_path / "a")]) == 0
    captured = capsys.readouterr()
    assert "linf, eps 26/255 (0.1020)" in captured.out
    assert "90 test samples" in captured.out
    for title in ("Natural", "FGSM", "PGD-20", "CW", "last (epoch 2)"):
        assert title in captured.out
    assert "epoch 2/2" in captured.err


def test_kill_9_in_the_middle_of_an_epoch_and_the_same_command_again_equal_an_unbroken_run(
    tiny: str, tmp_path: Path
) -> None:
    quick = [*QUICK, "--epochs", "12", "--lr", "0.005", "--batch-size", "2", "--attack-steps", "5", "--device", "cpu"]
    train = ["train", "--data", tiny, "--method", "orat", "--m", "0.2", "--noise", "symmetric", "--noise-rate", "0.2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(*train, *quick, "--out", str(whole)), env=environment, check=True, capture_output=True)
    kills = 0
    while not (broken / "result.json").exists() and kills < 3:
        before = len(lines(broken / "history.jsonl"))
        with subprocess.Popen(
            command(*train, *quick, "--out", str(broken)),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            while process.poll() is None and (
                len(lines(broken / "history.jsonl")) <= before or not (broken / "resume.pt").exists()
            ):
                time.sleep(0.005)
            time.sleep(0.1)  # well into the next epoch, and before its end
            process.send_signal(signal.SIGKILL)
        kills += 1
    assert not (broken / "result.json").exists(), "the run ended before it could be killed three times"
    subprocess.run(command(*train, *quick, "--out", str(broken)), env=environment, check=True, capture_output=True)
    for name in ("model", "state", "chosen"):
        assert (whole / f"{name}.safetensors").read_bytes() == (broken / f"{name}.safetensors").read_bytes()
    histories = [[record | {"seconds": 0} for record in RunFolder(folder).history()] for folder in (whole, broken)]
    assert histories[0] == histories[1]
    assert [record["epoch"] for record in histories[0]] == list(range(1, 13))


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def test_a_full_disk_is_one_line_and_loses_nothing(tiny: str, tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the write of the checkpoint fails in the same way."""
    out = tmp_path / "a"
    train = command("train", "--data", tiny, "--method", "at", *QUICK, "--model", "mlp-512", "--out", str(out))
    full = subprocess.run(
        train, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )  # fmt: skip
    assert full.returncode == 2, full.stderr
    assert "checkpoints saved before are intact" in full.stderr.splitlines()[-1]
    assert "Traceback" not in full.stderr
    assert not [file for file in out.iterdir() if file.name.endswith(".new")]
    again = subprocess.run(train, capture_output=True, text=True, check=True)
    assert "last (epoch 2)" in again.stdout


def test_ctrl_c_says_how_to_go_on(tiny: str, tmp_path: Path) -> None:
    train = ["train", "--data", tiny, "--method", "at", *QUICK, "--epochs", "5000", "--out", str(tmp_path / "a")]
    with subprocess.Popen(
        command(*train), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c
    ) as process:
        while process.poll() is None and not lines(tmp_path / "a" / "history.jsonl"):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("words", "function", "goes_on"),
    [("search", "search.run", True), ("evaluate", "evaluate.run", True), ("data", "data.run", False)],
)
def test_ctrl_c_promises_to_go_on_only_where_a_command_does(
    words: str, function: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"orat.cli.{function}", stopped)
    assert main(words.split()) == 130
    assert capsys.readouterr().err == f"orat: stopped{'; the same command goes on from there' if goes_on else ''}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--methd", "at"], "did you mean '--method'"),
        (["train"], "--method is not given"),
        ([], "COMMAND is missing: see orat --help"),
        (["trian"], "unknown command 'trian': did you mean 'train'"),
        (["labels", "fnid"], "unknown command 'fnid': did you mean 'find'"),
        (
            ["labels", "find"],
            "give data such as an image folder, a run's folder, or --predictions FILE with --labels FILE",
        ),
        (["train", "--method", "orta"], "did you mean 'orat'"),
        (["train", "--method", "at", "--k", "3"], "--k is for aorr, orat, not for at: leave it out"),
        (["train", "--k", "3"], "--k is for aorr, orat: give one of them as --method"),
        (["train", "--method", "orta", "--k", "3"], "unknown method 'orta': did you mean 'orat'"),
        (["train", "--method", "at", "--vary", "sed=1"], "unknown field 'sed': did you mean 'seed'"),
        (["train", "--method", "at", "--vary", "seed=1", "--vary", "seed=2"], "--vary seed is given twice"),
        (["train", "--method", "aorr"], "m is not given"),
        (["train", "--method", "orat", "--k", "0.9"], "k = 0.9"),
        (["train", "--method", "orat", "--k", "3", "--m", "5"], "k = 3, m = 5"),
        (["train", "--method", "orat", "--m", "6000"], "m = 5700 of n = 5700"),
        (["train", "--method", "orat", "--m", "60", "--k", "6001"], "6001 among 6000"),
        (["train", "--method", "orat", "--m", "1.5"], "k = 1.0, m = 1.5"),
        (["train", "--method", "at", "--eps", "8"], "did you mean 8/255"),
        (["train", "--method", "at", "--eps", "8/0"], "--eps: '8/0' is not a number"),
        (["train", "--method", "at", "--epochs", "1.5"], "--epochs: '1.5' is not a whole number"),
        (["train", "--method", "at", "--noise", "symmetric", "--noise-rate", "1"], "noise_rate = 1"),
        (["train", "--method", "at", "--model", "lenett"], "did you mean 'lenet'"),
        (["train", "--method", "at", "--data", "mnits"], "did you mean 'mnist'"),
        (["train", "--method", "at", "--data", "mnist", "--data-dir", "/nowhere"], "orat data --download mnist"),
        (["train", "--method", "at", "--labels", "/nowhere.csv"], "/nowhere.csv"),
        (["train", "--method", "at", "--device", "gpu9"], "gpu9"),
        (["train", "--method", "at", "--normalize", "maybe"], "known are no, yes"),
        (["train", "--method", "at", "stray"], "'stray'"),
        (["evaluate", "/nowhere"], "is not a run folder"),
        (["data", "--download", "mnits"], "did you mean 'mnist'"),
    ],
)
def test_nonsense_is_answered_in_one_line_with_exit_code_2(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in wrong(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_run_cannot_be_evaluated_and_is_told_so(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["train", "--data", tiny, "--method", "at", *QUICK, "--out", str(tmp_path / "a"), "--quiet"])
    (tmp_path / "a" / "model.safetensors").unlink()
    capsys.readouterr()
    assert "run the same train command" in wrong(capsys, "evaluate", str(tmp_path / "a"))


def test_a_folder_of_two_classes_of_wide_images_with_labels_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    for part, n in (("train", 30), ("test", 5)):
        for name, light in (("dark", 0), ("light", 120)):
            (tmp_path / "photos" / part / name).mkdir(parents=True)
            for i in range(n):
                pixels = random.integers(light, light + 120, (20, 30, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "photos" / part / name / f"{i:02}.png")
    given = ["dark"] * 30 + ["light"] * 30
    given[3] = "light"
    (tmp_path / "labels.csv").write_text("index,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(given)))
    train = ["train", "--data", str(tmp_path / "photos"), "--labels", str(tmp_path / "labels.csv"), "--method", "orat"]
    options = [*QUICK, "--model", "demo_cnn", "--epochs", "10", "--batch-size", "6", "--lr", "0.02", "--m", "1"]
    options += ["--milestones", "", "--eps", "4/255", "--validation", "0", "--quiet", "--json"]
    assert main([*train, *options, "--out", str(tmp_path / "run")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["last"]["natural"] >= 0.9
    assert result["outliers"] == {
        "cut": 1,
        "of": 60,
    }  # no precision: nobody vouches for the labels
    assert (~RunFolder(tmp_path / "run").load_tensors("state")["keep"]).nonzero().tolist() == [[3]]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["shape"] == [3, 20, 30]


@pytest.mark.slow
def test_the_demo_shows_all_methods_what_was_cut_and_the_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--epochs", "1", "--out", str(tmp_path / "demo")]) == 0
    text = capsys.readouterr().out
    for words in ("Natural", "FGSM", "PGD-20", "CW", "1,000 test samples", "training samples were removed"):
        assert words in text
    assert "labels were flagged" in text
    assert "flagged samples count most as another class" in text
    for name in ("at-seed0", "orat-seed0", "orat-m-seed0"):
        assert str(tmp_path / "demo" / name) in text
        assert (tmp_path / "demo" / name / "result.json").is_file()


def test_a_device_without_a_gpu_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert "cuda" in wrong(capsys, "train", "--method", "at", "--device", "cuda")
