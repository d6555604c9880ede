"""The arms of the study of lost classes."""

from __future__ import annotations

import lost_class
import pytest

from orat.core.errors import InputError
from orat.methods import ORAT
from orat_paper.authors import AuthorsORAT
from orat_paper.reproduce.artifacts import noisy


@pytest.mark.parametrize(
    ("arm", "kind", "solver", "burn_in"),
    [
        ("ours", ORAT, "minmax", 1),
        ("authors", AuthorsORAT, "minmax", 1),
        ("burn-in-2", ORAT, "minmax", 2),
        ("measured", ORAT, "minmax-measured", 1),
        ("measured+burn-in-3", ORAT, "minmax-measured", 3),
    ],
)
def test_an_arm_differs_in_the_start_of_the_scalars_alone(arm: str, kind: type, solver: str, burn_in: int) -> None:
    cell = noisy("mnist", "0.2", 40, "ORAT")
    run, plain = lost_class.run_for(arm, cell, 3), lost_class.run_for("ours", cell, 3)
    assert type(run.method) is kind
    assert isinstance(run.method, ORAT)
    assert (run.method.solver, run.method.burn_in, run.method.m, run.method.k) == (solver, burn_in, 11000, 60000)
    if kind is ORAT:
        assert run.record() | {"method": None} == plain.record() | {"method": None}


def test_an_unknown_arm_is_refused() -> None:
    with pytest.raises(InputError, match="unknown arm 'measured-2'"):
        lost_class.run_for("measured-2", noisy("mnist", "0.2", 40, "ORAT"), 0)
