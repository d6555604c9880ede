"""Texts reach the terminal as they are: names of users are no markup and no emoji."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from orat.cli.tables import plain_table, print_accuracy, print_report, print_table
from orat.core.console import Bar, Display, plain

NAMES = ("traps.py:A: accuracy 3 %", "[bold]x[/bold]", "[/]", ":smile:")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_printed_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Display().line(name)
    print_table(plain_table(name, {"a": name}, [{"a": name}]))
    print_accuracy(name, {name: {name: 0.5}}, {"eps": 0.1, "norm": "linf", "examples": 3})
    class_row = {"class": name, "examples": 1, "natural": 1.0, "robust": 1.0}
    report = {
        "accuracy": {name: 0.5}, "intervals": {name: (0, 1)}, "after_part": {f"{name}:{name}": 0.5}, "examples": 1,
        "norm": "linf", "eps": 0.1, "classes": [class_row], "worst_class": None, "agreement": None, "warnings": [name],
    }  # fmt: skip
    print_report(name, report)
    printed = capsys.readouterr()
    assert printed.err == f"{name}\n"
    assert printed.out.count(name) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_bar_shows_a_name_as_it_is(name: str) -> None:
    display = Display()
    display.console = plain(file=io.StringIO(), force_terminal=True, width=200)
    with display.bar() as bar:
        bar.set(name, 1, 2)
        progress = bar.progress
        assert progress is not None
        text = Console(file=io.StringIO(), width=200)
        table = progress.make_tasks_table(progress.tasks)
        assert isinstance(table, Table)
        with text.capture() as shown:
            text.print(table)
    assert name in shown.get()
    assert isinstance(bar, Bar)
