"""Proves that a change of the code changes no number: records tiny runs of two checkouts, and compares them.

python scripts/same_numbers.py record CHECKOUT OUT.json [--only SUBSTRING] [--jobs N] [--spelling old|new]
python scripts/same_numbers.py compare OLD.json NEW.json [--only SUBSTRING]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TIME_LIMIT = 300.0  # seconds that one process may take
POLL = 0.002  # seconds between two looks at a run's folder
INTO_EPOCH = 0.02  # seconds after an epoch's record until the process is held, so that a checkpoint of it is over
HELD = 1.5  # seconds that it is held before the epoch whose end is to be saved, as checkpoints follow the clock
HELD_LONG = 12.0  # where it has saved before: the longer that takes on a busy machine, the less often it is done
ATTEMPTS = 2  # to kill a run where it is meant to be

# Words of the arguments below -> words of a checkout that is recorded with `--spelling new`.
RENAMED = {
    "--engine replica": "--engine folded",
}

# What is compared, in this order: what comes first in a run is first here, so that the first difference tells most.
FIELDS = (
    "scouting",  # losses of the epochs before the first
    "estimates",  # what the method's state says after each epoch, those of scouting among them: values without names
    "trace",  # epoch, loss and validation accuracies of each epoch from the first on
    "cut", "corrected",  # samples, in the end
    "last", "chosen",  # accuracies on the test part
    "weights", "chosen_weights",  # hashes
    "resumed",  # of a run that is killed: whether it was, and whether it then gave the numbers of one that was not
)  # fmt: skip

# file: shape of an image, training and test samples
DATA = {
    "gray.npz": ((12, 12), 360, 60),
    "color.npz": ((3, 12, 12), 360, 60),
    "large.npz": ((16, 16), 360, 60),  # enough for LeNet
    "few.npz": ((8, 8), 90, 18),  # for ResNet-18
}
CLASSES = 3

# What all rows share; a flag that a row gives again is the row's.
SHARED = """
    --data gray.npz --model demo_cnn --noise symmetric --noise-rate 0.3 --validation 0.1 --epochs 4 --batch-size 32
    --lr 0.05 --milestones 4 --warmup 0 --augment none --weight-decay 2e-4 --eps 0.05 --attack-steps 3 --attack-warmup 0
    --device cpu
"""


@dataclass(frozen=True)
class Kill:
    """A point where a run is killed: after the checkpoint at the end of an epoch, some epochs later or at once."""

    epoch: int  # those of scouting among them, counted from 1
    later: int = 0


@dataclass(frozen=True)
class Row:
    """One run: its name, its arguments beside the shared ones, and where it is killed, once or several times."""

    name: str
    arguments: str
    kills: tuple[Kill, ...] = ()


def killed(name: str, arguments: str, *points: tuple[Kill, ...]) -> list[Row]:
    """A run that is not killed, and the same one killed at each of these points."""
    rows = [Row(f"long {name}", arguments)]
    for kills in points:
        words = " and ".join(f"{kill.epoch + kill.later}{' (older save)' * bool(kill.later)}" for kill in kills)
        rows.append(Row(f"long {name}, killed in {words}", arguments, kills))
    return rows


SCOUTS = "--method orat --scout-model quick_cnn --scout-epochs 6"
LONG = "--attack-steps 10 --epochs 6"
SAMPLE = "--data sample --noise asymmetric --method orat --m 0.2 --burn-in 0 --batch-size 128 --epochs 1"
SMALL = "--method orat --model small_cnn --scout-epochs 4 --epochs 2"
LENET = "--data large.npz --model lenet --lr 0.1"
CHOSEN = {
    "at": "--method at",
    "orat m": "--method orat --m 0.2",
    "orat minmax": "--method orat --m 0.2 --solver minmax",
    "orat automatic": SCOUTS,
    "raa": "--method raa --burn-in 2",
    "mail": "--method mail --burn-in 1",
}

ROWS = [
    # every method
    Row("st", "--method st"),
    Row("at", "--method at"),
    Row("trades", "--method trades"),
    Row("mart", "--method mart"),
    Row("gairat", "--method gairat --burn-in 1"),
    Row("gairat sigmoid", "--method gairat --burn-in 1 --weight sigmoid --shift 0"),
    Row("gairat discrete", "--method gairat --burn-in 1 --weight discrete"),
    Row("mail at", "--method mail --form at --burn-in 1"),
    Row("mail trades", "--method mail --form trades --burn-in 1"),
    Row("mail batch", "--method mail --scale batch --burn-in 1"),
    Row("wmmr", "--method wmmr"),
    Row("wmmr plain attack", "--method wmmr --weighted-attack no"),
    Row("wmmr detached", "--method wmmr --detach-weights yes"),
    Row("raa", "--method raa --burn-in 2"),
    Row("raa persistent", "--method raa --burn-in 2 --persistent yes --confidence 0.4"),
    Row("burn-in by itself", "--method raa --epochs 5"),
    Row("aorr", "--method aorr --m 0.2"),
    # forms of orat that are told m
    Row("orat rank", "--method orat --m 0.2 --solver rank"),
    Row("orat rank k", "--method orat --m 40 --k 0.9"),
    Row("orat rank ramp", "--method orat --m 0.2 --burn-in 2 --ramp 1 --epochs 5"),
    Row("orat minmax", "--method orat --m 0.2 --solver minmax"),
    Row("orat minmax k ramp", "--method orat --m 0.2 --k 0.9 --solver minmax --burn-in 1 --ramp 2"),
    Row("orat minmax authors", "--method orat --m 0.2 --solver minmax --scalar-start authors --scalar-rate constant"),
    # and those that are not
    Row("orat automatic default", "--method orat --epochs 8 --lr 0.1"),
    Row("orat automatic quick scouts", SCOUTS),
    Row("orat automatic own scouts", "--method orat --scout-model demo_cnn --scout-epochs 16"),
    Row("orat automatic small_cnn", SMALL),
    Row("orat automatic small_cnn, plain", f"{SMALL} --engine plain"),
    Row("orat automatic lenet", f"--method orat {LENET} --scout-model lenet --scout-epochs 8"),
    Row("orat automatic lenet, quick scouts", f"--method orat {LENET} --scout-model quick_cnn --scout-epochs 4"),
    Row("orat automatic options", f"{SCOUTS} --confidence 1 --memory 0.5 --burn-in 7"),
    Row("orat automatic crop-flip", f"{SCOUTS} --data color.npz --augment crop-flip --lr 0.1"),
    Row("orat score scout", f"{SCOUTS} --score scout"),
    Row("orat score scout m", f"{SCOUTS} --score scout --m 0.2"),
    Row("orat score natural", "--method orat --score natural --epochs 6"),
    Row("orat score adversarial", "--method orat --score adversarial --epochs 6"),
    Row("orat measure loss", f"{SCOUTS} --measure loss"),
    Row("orat measure margin", f"{SCOUTS} --measure margin"),
    # how steps are executed
    *(
        Row(f"{name}, {engine}, {precision}", f"{arguments} --engine {engine} --precision {precision}")
        for name, arguments in CHOSEN.items()
        for engine in ("plain", "replica")
        for precision in ("auto", "mixed")
    ),
    # attacks, schedules and images
    Row("l2", "--method at --norm l2 --eps 0.5"),
    Row("l1", "--method at --norm l1 --eps 4"),
    Row("linf that breaks much", "--method st --eps 0.15"),
    Row("l2 that breaks much", "--method st --norm l2 --eps 1.5"),
    Row("l1 that breaks much", "--method st --norm l1 --eps 24"),
    Row("attack warm-up", "--method at --attack-warmup 2.5"),
    Row("warm-up", "--method at --warmup 1.5"),
    Row("milestones", "--method at --milestones 2,3"),
    Row("schedule by itself", "--method orat --m 0.2 --warmup 1.5 --attack-warmup 2 --milestones 2,4 --epochs 5"),
    Row("normalize", "--method orat --m 0.2 --normalize yes"),
    Row("crop-flip", "--method at --data color.npz --augment crop-flip --lr 0.1"),
    Row("flip", "--method orat --m 0.2 --data color.npz --augment flip --normalize yes"),
    Row("attack in train mode", "--method at --attack-mode train --model small_cnn --epochs 2"),
    Row("attack from the image", "--method at --attack-start none"),
    Row("attack from gaussian", "--method at --attack-start gaussian"),
    Row("seeds", "--method at --seed 3 --noise-seed 5"),
    Row("no validation", "--method at --validation 0"),
    Row("asymmetric", SAMPLE),
    Row("labels of a file", "--method orat --m 0.2 --noise none --noise-rate 0 --labels labels.npy"),
    Row("instance", "--method orat --m 0.2 --noise instance"),
    # networks
    Row("lenet", f"--method at {LENET}"),
    Row("lenet, plain", f"--method at {LENET} --engine plain"),
    Row("lenet mixed", f"--method orat --m 0.2 {LENET} --precision mixed"),
    Row("small_cnn", "--method at --model small_cnn --epochs 2"),
    Row("small_cnn, plain", "--method at --model small_cnn --epochs 2 --engine plain"),
    Row("small_cnn mixed", "--method at --model small_cnn --epochs 2 --precision mixed"),
    Row("small_cnn orat", "--method orat --m 0.2 --model small_cnn --epochs 3 --precision mixed"),
    Row("resnet18", "--method at --model resnet18 --epochs 1 --data few.npz --attack-steps 2"),
    Row("mlp-8", "--method orat --m 0.2 --model mlp-8"),
    Row(
        "toy",
        "--method orat --m 0.02 --data toy-balanced --model mlp-3 --noise none --noise-rate 0 --eps 0.01 --epochs 8",
    ),
    # killed, and given again
    *killed("at", f"--method at {LONG}", (Kill(3),), (Kill(2, 2),)),
    *killed("orat rank", f"--method orat --m 0.2 {LONG}", (Kill(2),), (Kill(3, 1),)),
    *killed("orat minmax", f"--method orat --m 0.2 --solver minmax {LONG}", (Kill(3, 1),)),
    *killed("raa", f"--method raa --burn-in 2 {LONG}", (Kill(3, 1),)),
    *killed(
        "orat automatic", f"{SCOUTS} {LONG}",
        (Kill(2),), (Kill(3, 2),), (Kill(6),), (Kill(7),), (Kill(9, 1),), (Kill(4), Kill(8)),
    ),
    *killed("lenet", f"--method orat {LENET} --scout-model lenet --scout-epochs 6", (Kill(3), Kill(8))),
]  # fmt: skip


@dataclass
class Recorder:
    """Runs rows of one checkout, each in its own folder of a temporary one."""

    checkout: Path
    folder: Path
    spelling: str

    def environment(self) -> dict[str, str]:
        """That of a process which imports the checkout, and computes in one thread on the CPU."""
        rest = {name: value for name, value in os.environ.items() if name != "ORAT_DATA"}
        return rest | {"PYTHONPATH": str(self.checkout), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

    def check(self) -> None:
        """Refuses a checkout that is not what `import orat` finds."""
        where = [sys.executable, "-c", "import orat; print(orat.__file__)"]
        done = subprocess.run(where, env=self.environment(), cwd=self.folder, capture_output=True, text=True)
        if done.returncode or Path(done.stdout.strip()).parents[1] != self.checkout:
            raise SystemExit(f"`import orat` is {done.stdout or done.stderr}, not in {self.checkout}")

    def record(self, number: int, row: Row) -> dict[str, Any]:
        """What a row gives: its numbers, or why there are none; once more if it was not killed where it was to be."""
        started, found = time.monotonic(), {}
        for attempt in range(ATTEMPTS):
            found = self.attempt(f"{number:03d}-{attempt}", row)
            if all(sitting["where_meant"] for sitting in found["sittings"]):
                break
        return found | {"seconds": round(time.monotonic() - started, 1)}

    def attempt(self, out: str, row: Row) -> dict[str, Any]:
        """What a row gives in this folder."""
        words = f"--out {out} {SHARED} {row.arguments}"
        if self.spelling == "new":
            for old, new in RENAMED.items():
                words = re.sub(rf"(?<!\S){re.escape(old)}(?!\S)", new, words)
        command = [sys.executable, "-m", "orat", "train", *words.split()]
        sittings: list[dict[str, Any]] = []
        said: list[str] = []
        try:
            for kill in row.kills:
                sitting, text = self.kill(command, self.folder / out, kill)
                sittings.append(sitting)
                said.append(text)
                if not sitting["killed"]:
                    break
            said.append(self.finish(command))
            found = numbers(self.folder / out)
        except (OSError, ValueError, KeyError, RuntimeError, subprocess.TimeoutExpired) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        for sitting, text in zip(sittings, said[1:], strict=False):
            resumed = re.search(r"(?:going on from|resuming at) (.+)", text)
            sitting["went_on_from"] = resumed[1] if resumed else None
        return found | {"sittings": sittings}

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        """The command as a process."""
        return subprocess.Popen(
            command, env=self.environment(), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def finish(self, command: list[str]) -> str:
        """The command to its end, and what it said."""
        process = self.start(command)
        try:
            said = process.communicate(timeout=TIME_LIMIT)[1]
        finally:
            process.kill()
        if process.returncode:
            raise RuntimeError(f"exit status {process.returncode}: {(said.strip().splitlines() or [''])[-1]}")
        return said

    def kill(self, command: list[str], out: Path, kill: Kill) -> tuple[dict[str, Any], str]:
        """The command until it is killed, what is left then, and what it said.

        It is held before an epoch for so long that the end of this is saved, and let go until then: checkpoints follow
        the clock, which goes on meanwhile, so that runs need not be slow.
        """
        first, process = checkpoints(out), self.start(command)
        saved, reached = 0, False
        try:
            while saved < kill.epoch and wait(process, lambda: records(out) >= kill.epoch - 1):
                saved = hold(process, out, HELD if checkpoints(out) == first else HELD_LONG)
            reached = wait(process, lambda: records(out) >= saved + kill.later)
        finally:
            process.send_signal(signal.SIGKILL)
            said = process.communicate()[1]
        happened = reached and process.returncode == -signal.SIGKILL and not (out / "result.json").is_file()
        epochs = records(out)
        meant = happened and (saved, epochs) == (kill.epoch, kill.epoch + kill.later)
        return {"killed": happened, "where_meant": meant, "epochs": epochs, "saved_after": saved}, said


def hold(process: subprocess.Popen[str], out: Path, seconds: float) -> int:
    """Holds a process within an epoch, then lets it go; after how many epochs it saved, if that was the next or so."""
    time.sleep(INTO_EPOCH)
    process.send_signal(signal.SIGSTOP)
    before, done = checkpoints(out), records(out)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)
    wait(process, lambda: checkpoints(out) != before or records(out) > done + 1)
    return records(out) if checkpoints(out) != before else 0


def wait(process: subprocess.Popen[str], until: Callable[[], bool]) -> bool:
    """Whether something came true before a process ended or its time was over."""
    end = time.monotonic() + TIME_LIMIT
    while process.poll() is None and time.monotonic() < end:
        if until():
            return True
        time.sleep(POLL)
    return False


def records(out: Path) -> int:
    """The epochs that are over, those of scouting among them; -1 before the first begins."""
    files = [out / name for name in ("cross_fit.jsonl", "history.jsonl")]
    there = [file.read_bytes().count(b"\n") for file in files if file.is_file()]
    return sum(there) if there else -1


def checkpoints(out: Path) -> dict[str, int]:
    """The files to go on from, and when each was written."""
    times = {}
    for file in out.glob("[!.]*.pt"):
        with suppress(FileNotFoundError):  # a run that ends removes them
            times[file.name] = file.stat().st_mtime_ns
    return times


def numbers(out: Path) -> dict[str, Any]:
    """The numbers of a finished run."""
    history = lines_of(out / "history.jsonl")
    scouting = [*lines_of(out / "cross_fit.jsonl"), *(record for record in history if record["epoch"] < 1)]
    trained = [record for record in history if record["epoch"] >= 1]
    result = json.loads((out / "result.json").read_text())
    return {
        "scouting": [record["loss"] for record in scouting],
        "estimates": [list((record.get("state") or {}).values()) for record in (*scouting, *trained)],
        "trace": [{name: record[name] for name in ("epoch", "loss", "validation")} for record in trained],
        "cut": (result.get("outliers") or {}).get("cut"),
        "corrected": (result.get("corrections") or {}).get("changed"),
        "last": result["last"],
        "chosen": result["chosen"],
        "weights": hash_of(out / "model.safetensors"),
        "chosen_weights": hash_of(out / "chosen.safetensors"),
    }


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The records of a file with one a line; none where there is no file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def hash_of(file: Path) -> str | None:
    """A hash over the tensors of a safetensors file: names, types, shapes and bytes, by name."""
    if not file.is_file():
        return None
    content = file.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    tensors = json.loads(content[8:start])
    digest = hashlib.sha256()
    for name in sorted(tensors.keys() - {"__metadata__"}):
        tensor = tensors[name]
        begin, end = (start + place for place in tensor["data_offsets"])
        digest.update(f"{name} {tensor['dtype']} {tensor['shape']}\n".encode() + content[begin:end])
    return digest.hexdigest()


def make_data(folder: Path) -> None:
    """Images whose class is where a bright stripe is, under much noise, and a file with other labels."""
    for name, (shape, train, test) in DATA.items():
        generator = np.random.default_rng(0)
        arrays: dict[str, Any] = {}
        for part, n in (("train", train), ("test", test)):
            labels = np.arange(n) % CLASSES
            images = generator.integers(0, 130, (n, *shape), dtype=np.uint8)
            rows = shape[-2] // CLASSES
            for image, label in zip(images, labels, strict=True):
                image[..., rows * label : rows * (label + 1), :] += 100
            arrays |= {f"x_{part}": images, f"y_{part}": labels}
        np.savez(folder / name, **arrays)
    labels = np.arange(DATA["gray.npz"][1]) % CLASSES
    np.save(folder / "labels.npy", np.where(np.arange(len(labels)) % 4 == 0, (labels + 1) % CLASSES, labels))


def twin_of(row: Row) -> Row:
    """The same run without a kill."""
    return next(other for other in ROWS if other.arguments == row.arguments and not other.kills)


def selected(only: str) -> list[Row]:
    """The rows that have this in their name, and those that they are held against."""
    rows = [row for row in ROWS if only in row.name]
    rows += [twin_of(row) for row in rows if row.kills and twin_of(row) not in rows]
    return list({row.name: row for row in rows}.values())


def record(checkout: Path, out: Path, only: str, jobs: int, spelling: str) -> int:
    """Runs the rows of one checkout, and writes what they gave."""
    started, rows = time.monotonic(), selected(only)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(checkout.resolve(), Path(folder), spelling)
        recorder.check()
        make_data(Path(folder))
        with ThreadPoolExecutor(jobs) as pool:
            futures = {pool.submit(recorder.record, number, row): row for number, row in enumerate(rows)}
            for future in as_completed(futures):
                name = futures[future].name
                found[name] = future.result()
                outcome = found[name].get("error") or "; ".join(map(words_of, found[name]["sittings"]))
                print(f"{len(found):3d}/{len(rows)}  {found[name]['seconds']:5.1f} s  {name}  {outcome}", flush=True)
    for row in rows:
        if row.kills and "error" not in found[row.name]:
            found[row.name]["resumed"] = compared_with_twin(found[row.name], found[twin_of(row).name])
    content = {"checkout": str(checkout.resolve()), "rows": {row.name: found[row.name] for row in rows}}
    out.write_text(json.dumps(content, indent=1) + "\n")
    troubles = {row.name: words for row in rows if (words := trouble(found[row.name]))}
    for name, words in troubles.items():
        print(f"TROUBLE  {name}: {words}")
    resumed = sum(bool(row.kills) for row in rows)
    elsewhere = sum(not all(sitting["where_meant"] for sitting in found[row.name]["sittings"]) for row in rows)
    seconds = time.monotonic() - started
    print(f"{len(rows)} runs, {resumed} of them killed ({elsewhere} not where meant), {len(troubles)} with trouble")
    print(f"{seconds:.0f} s, written to {out}")
    return int(bool(troubles))


def words_of(sitting: dict[str, Any]) -> str:
    """How far a run was when it was killed, and from where it went on."""
    done = f"killed after {sitting['epochs']} epochs" if sitting["killed"] else "NOT killed"
    done += "" if sitting["where_meant"] or not sitting["killed"] else " (not where meant)"
    return f"{done}, went on from {sitting.get('went_on_from')}"


def compared_with_twin(row: dict[str, Any], twin: dict[str, Any]) -> dict[str, Any]:
    """Whether a run was killed wherever it was to be, and what it then gave other than the same run without a kill."""
    return {
        "killed": all(sitting["killed"] for sitting in row["sittings"]),
        "differs": first_difference(twin, row, FIELDS[:-1]),
    }


def trouble(row: dict[str, Any]) -> str | None:
    """What is wrong with a row by itself."""
    if "error" in row:
        return str(row["error"])
    resumed = row.get("resumed", {"killed": True, "differs": None})
    if resumed["differs"]:
        return f"not the numbers of the run without a kill: {resumed['differs']}"
    return None if resumed["killed"] else "ended before it could be killed"


def first_difference(old: dict[str, Any], new: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of these fields in which two rows differ, and both values; None where they are the same."""
    for row, side in ((old, "old"), (new, "new")):
        if "error" in row:
            return f"{side} failed: {row['error']}"
    return next((words for name in names if (words := difference(old.get(name), new.get(name), name))), None)


def difference(old: Any, new: Any, path: str) -> str | None:
    """The first place in which two JSON values differ, and what is there."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        parts = (difference(one, other, f"{path}[{i}]") for i, (one, other) in enumerate(zip(old, new, strict=True)))
    elif isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        parts = (difference(old[name], new[name], f"{path}.{name}") for name in old)
    else:
        same = type(old) is type(new) and json.dumps(old) == json.dumps(new)
        if path.startswith("estimates") and isinstance(old, float) and isinstance(new, float):
            same = same or old == float(np.float32(new))  # which the old code rounded before it wrote them
        return None if same else f"{path}: {shown(old)} -> {shown(new)}"
    return next(filter(None, parts), None)


def shown(value: Any) -> str:
    """A value, shortened if it is long."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def compare(old_file: Path, new_file: Path, only: str) -> int:
    """A line for each row of either file, then how many are equal."""
    old, new = (json.loads(file.read_text())["rows"] for file in (old_file, new_file))
    names = [name for name in {**old, **new} if only in name]
    width = max(map(len, names), default=0)
    counts = {"equal": 0, "different": 0, "missing": 0}
    for name in names:
        if name not in old or name not in new:
            verdict, kind = f"MISSING in {new_file if name in old else old_file}", "missing"
        elif words := first_difference(old[name], new[name], FIELDS):
            verdict, kind = f"DIFFERENT  {words}", "different"
        else:
            verdict, kind = "equal", "equal"
        counts[kind] += 1
        print(f"{name:{width}}  {verdict}")
    print(f"{len(names)} runs: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(counts["equal"] < len(names) or not names)


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run the rows of a checkout")
    recording.add_argument("checkout", type=Path, help="folder that has the package in it")
    recording.add_argument("out", type=Path, help="file for what they gave")
    recording.add_argument("--jobs", type=int, default=2, help="runs at once (default: 2)")
    recording.add_argument("--spelling", choices=("old", "new"), default="old", help="of the flags (default: old)")
    comparing = commands.add_parser("compare", help="compare what two checkouts gave")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    for one in (recording, comparing):
        one.add_argument("--only", default="", metavar="SUBSTRING", help="only rows with this in their name")
    options = parser.parse_args()
    if options.command == "compare":
        return compare(options.old, options.new, options.only)
    return record(options.checkout, options.out, options.only, options.jobs, options.spelling)


if __name__ == "__main__":
    sys.exit(main())
