"""docs/errata.md: every command prints the text of the page, and the claims about the tables hold."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
import torch

from orat_paper.reproduce.artifacts import ACCURACY, SIZES, rows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errata.md").read_text()
ENTRY = re.compile(r"^\*\*(\d+)\. .*?(?=^\*\*\d+\. |^## |\Z)", re.MULTILINE | re.DOTALL)
ATTACKS = ACCURACY[1:]


@dataclass(frozen=True)
class Example:
    """A command of the page with its output."""

    command: str
    printed: str


def examples(text: str) -> list[Example]:
    """All commands of a text; a command ends with its closing quote."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        prompt, *lines = block.splitlines()
        command = prompt.removeprefix("$ ")
        while command.count("'") % 2:
            command += "\n" + lines.pop(0)
        found.append(Example(command, "\n".join(lines)))
    return found


def words_of(command: str) -> list[str]:
    """The words of a command; all commands have one form."""
    words = shlex.split(command)
    assert words[:2] == ["python", "-c"]
    assert len(words) == 3
    return words


def named(example: Example) -> str:
    """The entry of an example."""
    titles = re.findall(r"^(?:\*\*(\d+)\.|## (What holds))", PAGE[: PAGE.index(example.command)], re.MULTILINE)
    return "-".join(part for part in titles[-1] if part)


@pytest.mark.parametrize("example", examples(PAGE), ids=named)
def test_every_command_prints_what_the_page_says(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run in this process, which loads torch once."""
    monkeypatch.chdir(ROOT)
    with redirect_stdout(StringIO()) as out, torch.random.fork_rng():
        exec(words_of(example.command)[2], {"__name__": "__main__"})
    assert out.getvalue() == example.printed + "\n"


def test_a_command_of_many_lines_does_the_same_in_a_process_of_its_own() -> None:
    example = next(one for one in examples(PAGE) if one.command.count("\n") > 2)
    command = [sys.executable, *words_of(example.command)[1:]]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert printed == example.printed + "\n"


def test_entries_are_numbered_and_all_of_one_form() -> None:
    entries = [(int(match[1]), match[0]) for match in ENTRY.finditer(PAGE)]
    # A new one takes the next number, wherever it stands.
    assert sorted(number for number, _ in entries) == list(range(1, len(entries) + 1))
    for number, text in entries:
        parts = re.findall(r"\*(Said|Is|Evidence)\*", text)
        assert parts == ["Said", "Is", "Evidence"], number
        assert len(examples(text)) == ("No command: " not in text), number


def test_links_and_files_that_the_page_names_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).is_file(), target
    for file in re.findall(r"`(tests/[\w/]+\.py)`", PAGE):
        assert (ROOT / file).is_file(), file


def test_what_is_said_to_hold_in_the_tables_does() -> None:
    files = ("table1_accuracy", "table_wide_resnet", "table_stability", "table_at_without_outliers", "table_pretrained")
    printed = [[float(row[name]) for name in ACCURACY] for file in files for row in rows(file)]
    assert f"In all {len(printed)} rows" in PAGE
    assert all(natural >= fgsm >= pgd20 for natural, fgsm, pgd20, _ in printed)
    ranks = [(int(row["m"]), int(row["k"]), SIZES[row["data"]]) for row in rows("table_k_m")]
    assert f"in all {len(ranks)} settings" in PAGE
    assert all(0 <= m < k <= n for m, k, n in ranks)
    best = {place(row): row for row in rows("table1_accuracy") if row["method"] == "ORAT"}
    others = [row for row in rows("table1_accuracy") if row["method"] not in ("ST", "ORAT")]
    assert all(float(best[place(row)][name]) > float(row[name]) for row in others for name in ATTACKS)


def place(row: dict[str, str]) -> tuple[str, ...]:
    """The setting of a row without the method."""
    return tuple(row[name] for name in ("data", "eps", "noise", "rate"))
