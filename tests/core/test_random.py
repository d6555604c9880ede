"""Random numbers by sample, against SplitMix64 in whole numbers and the distributions they claim."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor

from orat.core.random import Draws, exponential, fork, normal, randomness_of, take, uniform

SIZE = 1 << 64
GOLDEN = 0x9E3779B97F4A7C15


def splitmix(state: int) -> int:
    """The output function of SplitMix64 (Steele, Lea, Flood, 2014), in whole numbers modulo 2^64."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % SIZE
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % SIZE
    return state ^ (state >> 31)


def stream(key: int, count: int) -> list[float]:
    """The first numbers of SplitMix64 from this state, as the middles of 2^52 parts of the unit interval."""
    return [((splitmix((key + number * GOLDEN) % SIZE) >> 12) + 0.5) / 2**52 for number in range(1, count + 1)]


def key_of(seed: int, index: int) -> int:
    return splitmix((splitmix((seed + 1) * GOLDEN % SIZE) + index * GOLDEN) % SIZE)


def test_splitmix_here_is_the_published_one() -> None:
    """The first outputs for seed 0, as every library that carries the generator lists them."""
    outputs = [splitmix(number * GOLDEN % SIZE) for number in (1, 2, 3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.parametrize("seed", [0, 1, 7, 2**40, -3])
def test_numbers_are_splitmix_of_seed_sample_and_draw(seed: int) -> None:
    index = [0, 1, 5, 59_999, 2**31]
    numbers = Draws.of(seed, torch.tensor(index)).uniform((3, 2))
    expected = [stream(key_of(seed, place), 6) for place in index]
    assert numbers.dtype == torch.float64
    assert numbers.shape == (5, 3, 2)
    assert numbers.flatten(1).tolist() == expected


def test_a_samples_numbers_depend_on_neither_its_batch_nor_its_place_in_it() -> None:
    whole = Draws.of(3, torch.arange(50)).uniform((7,))
    order = torch.tensor([31, 2, 49, 0])
    assert torch.equal(Draws.of(3, order).uniform((7,)), whole[order])
    for index in order.tolist():
        assert torch.equal(Draws.of(3, torch.tensor([index])).uniform((7,))[0], whole[index])


def test_a_draw_goes_on_where_the_last_one_ended() -> None:
    whole = Draws.of(0, torch.arange(4)).uniform((9,))
    draws = Draws.of(0, torch.arange(4))
    parts = [draws.uniform((2,)), draws.uniform(()), draws.uniform((2, 3)).flatten(1)]
    assert torch.equal(torch.cat([parts[0], parts[1][:, None], parts[2]], 1), whole)
    assert whole.unique().numel() == whole.numel()


def test_some_of_the_samples_go_on_by_themselves_from_where_they_were() -> None:
    whole = Draws.of(0, torch.arange(6)).uniform((5,))
    draws = Draws.of(0, torch.arange(6))
    draws.uniform((2,))
    mask = torch.tensor([True, False, False, True, False, True])
    some = draws.take(mask)
    assert torch.equal(some.uniform((3,)), whole[mask, 2:])
    assert torch.equal(draws.uniform((3,)), whole[:, 2:])  # drawing from a part does not advance the whole


def test_forks_are_splitmix_of_key_and_number_and_begin_anew() -> None:
    draws = Draws.of(5, torch.tensor([8]))
    draws.uniform((4,))
    expected = stream(splitmix((key_of(5, 8) + 3 * GOLDEN) % SIZE), 3)
    assert draws.fork(2).uniform((3,))[0].tolist() == expected


def test_forks_differ_from_their_parent_and_from_each_other() -> None:
    draws = Draws.of(1, torch.arange(20))
    families = [draws, *(draws.fork(number) for number in range(9)), draws.fork(0).fork(0)]
    numbers = torch.stack([family.uniform((5,)) for family in families])
    assert numbers.unique().numel() == numbers.numel()


def test_a_number_for_each_sample_forks_like_one_number_for_all() -> None:
    draws = Draws.of(1, torch.arange(6))
    number = torch.tensor([0, 1, 2, 0, 1, 2])
    each = draws.fork(number).uniform((4,))
    for one in range(3):
        rows = number == one
        assert torch.equal(draws.fork(one).uniform((4,))[rows], each[rows])
        assert torch.equal(take(fork(draws, one), rows).uniform((4,)), each[rows])


DISTRIBUTIONS: dict[str, tuple[Callable[..., Tensor], stats.rv_continuous]] = {
    "uniform": (uniform, stats.uniform),
    "normal": (normal, stats.norm),
    "exponential": (exponential, stats.expon),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("axis", ["samples", "draws", "forks"])
def test_numbers_have_their_distribution_along_samples_draws_and_forks(name: str, axis: str) -> None:
    draw, expected = DISTRIBUTIONS[name]
    n = 20_000
    draws = Draws.of(0, torch.arange(n) if axis == "samples" else torch.full((1 if axis == "draws" else n,), 17))
    if axis == "forks":
        draws = draws.fork(torch.arange(n))
    x = torch.empty(1, n) if axis == "draws" else torch.empty(n, 1)
    numbers = draw(x.double(), draws).flatten().numpy()
    assert stats.kstest(numbers, expected.cdf).pvalue > 0.001
    assert numbers.mean() == pytest.approx(expected.mean(), abs=4 * expected.std() / n**0.5)
    assert numbers.var() == pytest.approx(expected.var(), rel=0.06)


def test_neighboring_samples_draws_and_seeds_are_not_correlated() -> None:
    numbers = torch.stack([Draws.of(seed, torch.arange(200)).uniform((200,)) for seed in (0, 1)]) - 0.5
    for one, two in (
        (numbers[:, 1:], numbers[:, :-1]),
        (numbers[:, :, 1:], numbers[:, :, :-1]),
        (numbers[0], numbers[1]),
    ):
        assert abs((one * two).mean().item() * 12) < 4 / one.numel() ** 0.5


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_come_in_shape_and_type_of_the_images_and_are_finite(name: str, dtype: torch.dtype) -> None:
    x = torch.zeros((6, 3, 40, 50), dtype=dtype)
    numbers = DISTRIBUTIONS[name][0](x, Draws.of(0, torch.arange(6)))
    assert numbers.shape == x.shape
    assert numbers.dtype == dtype
    assert bool(numbers.isfinite().all())


def test_both_types_carry_the_same_numbers() -> None:
    x = torch.zeros(5, 9)
    for draw, _ in DISTRIBUTIONS.values():
        single = draw(x, Draws.of(0, torch.arange(5)))
        assert torch.equal(draw(x.double(), Draws.of(0, torch.arange(5))).float(), single)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_nothing_given_is_the_same_twice_and_touches_no_global_state(name: str) -> None:
    draw, _ = DISTRIBUTIONS[name]
    x = torch.zeros(4, 5)
    before = torch.get_rng_state()
    one, two = (draw(x, randomness_of(None, x)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(one, draw(x, Draws.of(0, torch.arange(4))))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_generator_of_torch_serves_all_samples(name: str) -> None:
    draw, expected = DISTRIBUTIONS[name]
    x = torch.zeros(200, 50, dtype=torch.float64)
    before = torch.get_rng_state()
    generator = torch.Generator().manual_seed(3)
    assert randomness_of(generator, x) is generator
    assert take(generator, torch.arange(3)) is generator
    assert fork(generator, 5) is generator
    one, next_one = draw(x, generator), draw(x, generator)
    assert torch.equal(one, draw(x, torch.Generator().manual_seed(3)))
    assert not torch.equal(one, next_one)
    assert stats.kstest(one.flatten().numpy(), expected.cdf).pvalue > 0.001
    assert torch.equal(before, torch.get_rng_state())
