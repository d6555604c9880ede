"""Tables and figures as cells, and cells as runs, against the paper's own files."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
import torch

from orat.core.errors import InputError
from orat.data.catalog import load
from orat.methods import AT, ORAT, AoRR
from orat.methods.ranked_range import minmax, ranked_range
from orat.training.run import Run
from orat_paper.authors import AuthorsORAT
from orat_paper.outlier_labels import FILE
from orat_paper.reproduce.artifacts import AUTOMATIC, MEASURED, PAPER, artifact, artifacts, beside_orat
from orat_paper.reproduce.cells import Cell, choose, read_only
from orat_paper.reproduce.settings import Places, run_of, trial_of
from orat_paper.scrambled import scrambled

PLACES = Places(Path("out"))
COUNTS = {
    "table1": 354, "autoattack": 42 + 12, "at-without": 8, "stability": 14, "pretrained": 8, "wide-resnet": 14,
    "wide-resnet-short": 14, "k-m": 54,
    "loss-curves": 15, "accuracy-curves": 12, "effect-of-m": 66 + 36, "effect-of-k": 48 + 36, "toy": 9, "clothing1m": 3,
}  # fmt: skip


def lines(name: str) -> list[dict[str, str]]:
    """A table of the paper, read independently."""
    with (PAPER / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def value(text: str) -> float:
    """A radius as a number."""
    over, _, under = text.partition("/")
    return float(over) / float(under or 1)


def test_every_table_and_figure_has_its_cells_each_once() -> None:
    assert {name: len(one.cells) for name, one in artifacts().items()} == COUNTS
    assert all(len(set(one.cells)) == len(one.cells) for one in artifacts().values())
    assert artifact("stability").seeds == tuple(range(10))


def test_the_mnist_half_of_table_1_has_118_cells_and_each_method_has_its_rows() -> None:
    cells = artifact("table1").cells
    assert len(choose(cells, {"data": ["mnist"]}, "table1")) == 118
    assert Counter(cell.method for cell in cells) == {
        "ST": 54, "AT": 54, "ORAT": 54, "GAIRAT": 48, "MAIL": 48, "WMMR": 48, "RAA": 48,
    }  # fmt: skip


def test_every_cell_of_table_1_is_a_run_with_the_papers_data_radius_noise_and_method() -> None:
    for cell, line in zip(artifact("table1").cells, lines("table1_accuracy"), strict=True):
        run = run_of(cell, "ours", 3, PLACES)
        assert (run.data, run.eps, run.noise, run.seed) == (line["data"], value(line["eps"]), line["noise"], 3)
        assert run.noise_rate == int(line["rate"]) / 100
        assert run.method_name == line["method"].lower()
        assert run.attack_step_size == run.eps / 4
        assert run.model == {"mnist": "lenet", "cifar10": "small_cnn", "cifar100": "resnet18"}[line["data"]]
        assert cell.theirs == {name: float(line[name]) for name in ("natural", "fgsm", "pgd20", "cw")}


@pytest.mark.parametrize("protocol", ["ours", "authors"])
def test_orat_has_the_papers_k_and_m_in_every_place_by_algorithm_1(protocol: str) -> None:
    wanted = {(line["data"], line["eps"], line["noise"], line["rate"]): line for line in lines("table_k_m")}
    cells = artifact("k-m").cells
    assert len(cells) == len(wanted) == 54
    for cell in cells:
        line = wanted[cell.data, cell.eps, cell.noise, str(cell.rate)]
        method = run_of(cell, protocol, 0, PLACES).method
        assert isinstance(method, ORAT)
        assert (method.k, method.m) == (int(line["k"]), int(line["m"]))
        assert (method.solver, method.burn_in) == ("minmax", 1)
        assert type(method) is {"ours": ORAT, "authors": AuthorsORAT}[protocol]


def test_every_cell_makes_a_run_of_a_folder_of_its_own_under_every_protocol() -> None:
    for one in artifacts().values():
        for protocol in one.protocols:
            trials = [trial_of(one, cell, protocol, 0, PLACES) for cell in one.cells]
            assert all(Run.from_record(trial.run.record()) == trial.run for trial in trials[::7])
            assert len({trial.folder for trial in trials}) == len(trials)


def test_the_same_training_in_two_tables_is_one_folder() -> None:
    cell = Cell("mnist", "0.1", "symmetric", 20, "AT")
    folders = {trial_of(artifact(name), cell, "ours", 0, PLACES).folder for name in ("table1", "autoattack")}
    assert len(folders) == 1
    tested = trial_of(artifact("accuracy-curves"), cell, "ours", 0, PLACES)
    assert tested.every_epoch
    assert tested.folder not in folders


def test_authors_take_their_radii_hold_nothing_out_and_do_not_warm_up() -> None:
    for eps, theirs in {"2/255": 0.0078, "8/255": 0.031}.items():
        run = run_of(Cell("cifar10", eps, "none", 0, "AT"), "authors", 0, PLACES)
        assert (run.eps, run.attack_step_size, run.validation, run.warmup) == (theirs, theirs / 4, 0.0, 0.0)
    assert run_of(Cell("mnist", "0.1", "none", 0, "AT"), "authors", 0, PLACES).eps == 0.1
    assert run_of(Cell("cifar10", "8/255", "none", 0, "AT"), "ours", 0, PLACES).eps == 8 / 255


@pytest.mark.parametrize(
    ("data", "noise", "model", "layout", "augment"),
    [
        ("cifar10", "none", None, "cifar10", "crop-flip"),
        ("cifar10", "symmetric", None, "scrambled:cifar10", "none"),
        ("cifar10", "symmetric", "wrn-32-10", "cifar10", "crop-flip"),
        ("cifar10", "asymmetric", None, "cifar10", "crop-flip"),
        ("cifar100", "asymmetric", None, "scrambled:cifar100", "none"),
        ("mnist", "symmetric", None, "mnist", "none"),
    ],
)
def test_authors_scramble_the_rows_that_show_it_and_ours_none(
    data: str, noise: str, model: str | None, layout: str, augment: str
) -> None:
    cell = Cell(data, "2/255", noise, 20 if noise != "none" else 0, "AT", model=model)
    theirs, right, ours = (run_of(cell, protocol, 0, PLACES) for protocol in ("authors", "authors-right", "ours"))
    assert (theirs.data, theirs.augment) == (layout, augment)
    assert right.record() == theirs.record() | {"data": data}
    assert (ours.data, ours.augment) == (data, "none" if data == "mnist" else "crop-flip")


def test_a_table_may_have_fields_of_its_own_which_make_another_training() -> None:
    cell = artifact("wide-resnet").cells[2]
    short, whole = (trial_of(artifact(name), cell, "ours", 0, PLACES) for name in ("wide-resnet-short", "wide-resnet"))
    assert (short.run.epochs, short.run.milestones, short.run.warmup) == (6, (2, 4), 1.0)
    assert (whole.run.epochs, whole.run.milestones, whole.run.warmup) == (100, (30, 60), 5.0)
    assert short.folder != whole.folder


def test_asymmetric_noise_groups_classes_as_each_protocol_says() -> None:
    cell = Cell("cifar100", "2/255", "asymmetric", 40, "AT")
    assert run_of(cell, "authors", 0, PLACES).noise == "asymmetric-authors"
    assert run_of(cell, "ours", 0, PLACES).noise == "asymmetric"


def test_any_data_set_can_be_had_scrambled_and_gray_images_do_not_change() -> None:
    assert torch.equal(load("scrambled:sample").train.images, load("sample").train.images)
    with pytest.raises(InputError, match="give images"):
        load("scrambled:toy-balanced")


def test_scrambled_images_keep_their_values_and_hardly_one_its_place() -> None:
    splits = load("sample")
    train = splits.train.take(torch.arange(2))
    colors = torch.arange(2 * 3072).reshape(2, 3, 32, 32) / (2 * 3072)
    moved = scrambled(type(splits)(type(train)(colors, train.labels, train.classes), None)).train.images
    assert torch.equal(moved.flatten(1).sort().values, colors.flatten(1))
    assert (moved == colors).float().mean().item() == pytest.approx(2 / 3072)
    assert moved[0, 0, 0, :3].tolist() == [colors[0, channel, 0, 0] for channel in range(3)]


def test_at_without_outliers_follows_an_aorr_run_with_the_papers_k_and_m() -> None:
    trial = trial_of(artifact("at-without"), artifact("at-without").cells[0], "ours", 1, PLACES)
    assert trial.before is not None
    assert trial.run.labels == str(trial.before.folder / FILE)
    assert (trial.run.noise, trial.before.run.noise) == ("none", "symmetric")
    assert isinstance(trial.run.method, AT)
    source = trial.before.run.method
    assert isinstance(source, AoRR)
    assert (source.k, source.m) == (59950, 2000)


def test_folders_do_not_depend_on_where_data_and_runs_lie() -> None:
    places = [Places(Path("a"), {"mnist": "x/m.npz"}), Places(Path("b/c"), {"mnist": "/y/m.npz"})]
    for name in ("table1", "at-without"):
        cell = artifact(name).cells[0]
        assert len({trial_of(artifact(name), cell, "ours", 0, place).folder.name for place in places}) == 1


def test_data_from_a_file_is_trained_as_the_data_set_that_it_is() -> None:
    here = Places(Path("out"), {"cifar10": "images.tar", "mnist": "digits.npz"})
    for data, path in here.data.items():
        for protocol, prefix in (("ours", ""), ("authors", "scrambled:" if data == "cifar10" else "")):
            cell = Cell(data, "0.1", "symmetric", 20, "WMMR")
            there, named = run_of(cell, protocol, 0, here), run_of(cell, protocol, 0, PLACES)
            assert there.data == prefix + path
            assert there.record() | {"data": named.data} == named.record()


def test_effects_of_k_and_m_are_within_the_data_and_toys_have_the_papers_ranks() -> None:
    for cells in (artifact(name).cells for name in ("effect-of-m", "effect-of-k")):
        ranked = [cell for cell in cells if cell.method == "ORAT"]
        assert all(0 < cell.m < cell.k <= {"mnist": 60_000}.get(cell.data, 50_000) for cell in ranked)  # type: ignore[operator]
        assert all((cell.noise, cell.rate) == ("symmetric", 20) for cell in cells)
        here = [cell for cell in artifact("table1").cells if (cell.noise, cell.rate) == ("symmetric", 20)]
        assert {cell: cell.theirs for cell in cells if cell.method != "ORAT"} == {
            cell: cell.theirs for cell in here if cell.method != "ORAT"
        }
    assert {cell.data: (cell.k, cell.m) for cell in artifact("toy").cells if cell.method == "ORAT"} == {
        "toy-balanced": (20, 2), "toy-imbalanced": (20, 1), "toy-imbalanced-2": (5, 1),
    }  # fmt: skip


def test_toys_are_ranked_exactly_since_algorithm_1_takes_a_fraction_of_the_steps_of_its_objective() -> None:
    losses = torch.linspace(4, 0.1, 200, dtype=torch.float64, requires_grad=True)
    for cell, share in zip(artifact("toy").cells[2::3], (0.09, 0.095, 0.02), strict=True):
        k, m = cell.k or 0, cell.m or 0
        method = run_of(cell, "ours", 0, PLACES).method
        assert isinstance(method, ORAT)
        assert (method.k, method.m, method.solver, method.burn_in, method.ramp) == (k, m, "rank", 1, 0)
        low, high = (losses.detach()[rank - 1] + 1e-9 for rank in (k + 1, m + 1))  # between the ranks
        theorem, objective = minmax(losses, low, high - low, 200, k, m), ranked_range(losses, k, m)
        ours, wanted = (torch.autograd.grad(loss, losses)[0] for loss in (theorem, objective))
        torch.testing.assert_close(ours, share * wanted)


def test_automatic_orat_stands_beside_every_orat_without_numbers_of_the_paper() -> None:
    cells = beside_orat(artifact("stability").cells, [AUTOMATIC])
    own = cells[14:]
    assert [(cell.data, cell.method, cell.k, cell.theirs) for cell in own] == [
        ("mnist", "ORAT automatic", None, {}),
        ("cifar100", "ORAT automatic", None, {}),
    ]
    method = run_of(own[0], "ours", 0, PLACES).method
    assert isinstance(method, ORAT)
    assert method.m is None
    assert len(beside_orat(artifact("effect-of-m").cells, [AUTOMATIC])) == 66 + 36 + 6  # once a place


def test_orat_with_a_measured_start_is_orat_but_for_its_solver() -> None:
    (cell,) = choose(artifact("table1").cells, read_only(["data=mnist,eps=0.2,method=ORAT,noise=none"]), "table1")
    other = beside_orat((cell,), [MEASURED])[1]
    assert (other.k, other.m, other.theirs) == (cell.k, cell.m, cell.theirs)
    one, two = (run_of(each, "ours", 0, PLACES).record() for each in (cell, other))
    assert two["method"].pop("solver") == "minmax-measured"
    assert one["method"].pop("solver") == "minmax"
    assert one == two


def test_filters_take_several_values_of_a_key_and_any_spelling() -> None:
    cells = artifact("table1").cells
    wanted = read_only(["data=mnist, method=at", "method=orat,eps=0.10"])
    chosen = choose(cells, wanted, "table1")
    assert {(cell.data, cell.eps, cell.method) for cell in chosen} == {("mnist", "0.1", "AT"), ("mnist", "0.1", "ORAT")}
    assert len(chosen) == 18
    assert choose(cells, {}, "table1") == cells


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data=mnst", "in table1 there are mnist, cifar10, cifar100"),
        ("data=mnist,eps=8/255", "in table1 with data=mnist there are 0.1, 0.2"),
        ("rate=15", "there are 0, 10, 20, 30, 40"),
        ("method=AoRR", "there are ST, AT, ORAT, GAIRAT, MAIL, WMMR, RAA"),
        ("model=lenet", "there are no values"),
        ("dat=mnist", "did you mean 'data'"),
        ("data=", "names no value"),
        ("data", "names no value"),
    ],
)
def test_a_filter_that_matches_nothing_says_what_there_is(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        choose(artifact("table1").cells, read_only([text]), "table1")
    assert "\n" not in str(error.value)
