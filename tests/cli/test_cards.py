"""Every method has a card: what it is, what it costs and whose it is; `test_methods.py` counts the cost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields

import pytest
from refusals import wrong

from orat.attacks.suite import ATTACKS
from orat.cli.cards import HEADINGS, Card, cards, lines, title_of
from orat.cli.main import main
from orat.methods import AT, METHODS, ORAT
from orat.models.catalog import NAMES

TEXTS = [field.name for field in fields(Card) if field.type == "str"]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints that goes well."""
    assert main(["list", "methods", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def words(text: str) -> str:
    """A text whose lines were broken anywhere, on one line."""
    return " ".join(text.split())


def test_every_method_has_a_card() -> None:
    assert list(cards()) == list(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_card_leaves_nothing_out_and_states_its_idea_in_two_sentences(name: str) -> None:
    card = cards()[name]
    assert len(TEXTS) == 10
    for field in TEXTS:
        text = getattr(card, field)
        assert text.strip() == text
        assert text or field == "ours"
        assert "\n" not in text
        assert "  " not in text.replace(",  ", ", ").replace("  or  ", " or ")  # which part the terms of a formula
    assert len(re.findall(r"[.!?](?=\s|$)", card.idea)) == 2
    assert card.idea.endswith(".")


@pytest.mark.parametrize(
    ("name", "steps", "cost"),
    [("st", 10, (1, 1)), ("aorr", 10, (1, 1)), ("at", 10, (11, 11)), ("trades", 10, (13, 12)), ("mart", 10, (12, 12))],
)
def test_costs_of_ten_steps_are_those_of_the_specification(name: str, steps: int, cost: tuple[int, int]) -> None:
    """10 (f + b) + 1 (f + b) for AT; TRADES needs one forward pass for its attack's anchor and two passes to learn."""
    assert cards()[name].cost(steps) == cost


def test_the_card_of_raa_says_that_it_is_a_re_derivation_and_no_other_does() -> None:
    card = cards()["raa"]
    assert "our re-derivation" in card.title
    assert "No code of RAA is public" in card.differences
    assert "inferred" in card.differences
    assert "our re-derivation" in (METHODS["raa"].__doc__ or "")
    assert [name for name, other in cards().items() if "re-derivation" in other.title] == ["raa"]


def test_methods_of_the_same_family_warn_of_wrong_labels_and_of_attacks_they_do_not_withstand() -> None:
    for name in ("gairat", "mail", "wmmr"):
        assert "wrong label" in cards()[name].weaknesses
        assert "AutoAttack" in cards()[name].weaknesses


def test_the_list_has_a_row_for_every_method_and_names_the_papers_other_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys)
    rows = [line.split()[0] for line in text.splitlines() if re.match(r" +[a-z]+ .* \d+ *$", line)]
    assert rows == list(METHODS)
    assert "AT without outliers" in text
    assert "--init-from" in text


def test_a_card_is_printed_with_every_heading_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    card = cards()["mail"]
    text = words(printed(capsys, "mail"))
    for field, heading in HEADINGS.items():
        assert (words(heading) in text) == (field != "ours")
    for flag in ("--form", "--scale", "--slope", "--bias", "--beta", "--burn-in"):
        assert flag in text
    assert re.search(r"K \+ 1 forward.* K \+ 1 backward passes", text)
    assert "10; 2 with trades" in text
    assert all(word in text for word in card.weaknesses.split())


def test_json_has_the_whole_card_of_one_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    records = json.loads(printed(capsys, "--json"))
    assert [record["name"] for record in records] == list(METHODS)
    (record,) = json.loads(printed(capsys, "trades", "--json"))
    assert record == records[2]
    assert (record["forward"], record["backward"], record["attacks"]) == (3, 2, True)
    assert record["options"] == [
        {"flag": "--beta", "default": "1 on MNIST, else 6", "help": "weight of the KL divergence"}
    ]
    for field in TEXTS:
        assert record[field] == getattr(cards()["trades"], field)


def test_markdown_is_a_page_with_a_section_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "--markdown")
    assert re.findall(r"^## (\w+): ", page, re.MULTILINE) == list(METHODS)
    assert page.count("**Known weaknesses.**") == len(METHODS)
    section = printed(capsys, "orat", "--markdown")
    assert section[section.index("## orat") :].rstrip() in page
    assert "## aorr" not in section
    assert "| `--m` | " in section
    assert "**Not in the paper.** ORAT (automatic)" in section
    table = [line for line in section.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {4}
    assert len(table) == 2 + len(fields(METHODS["orat"]))


def test_an_unknown_method_is_one_line_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    line = wrong(capsys, "list", "methods", "mial")
    assert "unknown method 'mial': did you mean 'mail'?" in line
    assert all(name in line for name in METHODS)
    assert "give one of them" in wrong(capsys, "list", "methods", "--json", "--markdown")


def test_only_the_card_of_orat_has_a_part_that_is_not_in_the_paper() -> None:
    assert [name for name, card in cards().items() if card.ours] == ["orat"]
    for words_of_ours in ("scout networks", "cross-fitting", "noise estimate", "expected loss"):
        assert words_of_ours in cards()["orat"].ours


def test_orat_without_m_is_called_automatic() -> None:
    titles = [title_of(method) for method in (ORAT(), ORAT(m=0.3), AT())]
    assert titles == ["ORAT (automatic)", "ORAT", "Adversarial training"]


@pytest.mark.parametrize(("kind", "known"), [("attacks", ATTACKS), ("models", NAMES)])
def test_every_attack_and_network_has_a_line_that_fits_a_terminal(
    kind: str, known: Iterable[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(lines(kind)) == sorted(known)
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["description"] for row in rows} == lines(kind)
    assert main(["list", kind]) == 0
    text = capsys.readouterr().out
    for name, description in lines(kind).items():
        assert re.search(rf"^ +{re.escape(name)} +{re.escape(description)} *$", text, re.MULTILINE)


def test_the_list_of_methods_needs_no_torch() -> None:
    script = (
        "import sys\nfrom orat.cli.main import main\nassert main(['list', 'methods']) == 0\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "False False\n"
    assert "orat" in done.stdout
