import numpy as np
import pytest
from scipy.stats import t

from bench.stats import _weights, bootstrap, freedom, interval, intervals, resample


def test_interval_of_a_mean_is_the_normal_one():
    """One seed, many independent images: half-width 1.96 s / sqrt(n)."""
    rng = np.random.default_rng(0)
    values = rng.normal(2.0, 3.0, size=(1, 4000))
    found = bootstrap(values)
    assert found.mean == pytest.approx(values.mean())
    half = 1.96 * values.std() / 4000**0.5
    assert found.high - found.mean == pytest.approx(half, rel=0.1)
    assert found.mean - found.low == pytest.approx(half, rel=0.1)


def test_the_same_images_under_every_seed_count_once():
    """Images' difficulty is shared: more seeds of the same numbers add no information."""
    difficulty = np.random.default_rng(1).normal(size=(1, 500))
    one, many = bootstrap(difficulty), bootstrap(np.repeat(difficulty, 10, axis=0))
    assert many.high - many.low == pytest.approx(one.high - one.low, rel=0.05)


def test_few_seeds_that_make_all_the_difference_have_students_interval():
    """Half-width t s / sqrt(n) with s of n - 1 degrees of freedom."""
    for seeds in (5, 8, 20):
        offsets = np.random.default_rng(seeds).normal(size=(seeds, 1))
        found = bootstrap(offsets + np.zeros((seeds, 100)))
        half = t.ppf(0.975, seeds - 1) * offsets.std(ddof=1) / seeds**0.5
        assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.12)


def test_repeats_on_one_victim_are_drawn_and_on_several_follow_their_victim():
    rng = np.random.default_rng(0)
    repeats = rng.normal(size=(1, 12, 1)) + np.zeros((1, 12, 60))
    found = bootstrap(repeats)
    half = t.ppf(0.975, 11) * repeats[0, :, 0].std(ddof=1) / 12**0.5
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)
    several = rng.normal(size=(6, 4, 80))
    assert bootstrap(several) == pytest.approx(bootstrap(several.mean(1)))
    one = rng.normal(size=(1, 1, 80))
    assert bootstrap(one) == bootstrap(one[:, 0])


def test_an_interval_keeps_its_bounds_and_leaves_out_what_is_not_measured():
    values = np.array([[0.0] * 50, [1.0] * 50])
    draws = resample(values[None, :, None])[0]
    found = interval(0.5, draws, (1, 49), (0, 1))
    assert (found.low, found.high) == (0, 1)
    draws[::7] = np.nan
    assert interval(0.5, draws, (1, 49), (0, 1)) == found
    assert interval(0.5, np.full_like(draws, np.nan), (1, 49)) == (0.5, 0.5, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "repeats", "least"),
    [(1, 1, 0.92), (2, 1, 0.84), (3, 1, 0.9), (3, 3, 0.9), (5, 2, 0.91)],
)
@pytest.mark.parametrize(
    "spread", [(1, 0, 0, 3), (0.3, 1, 0.1, 1), (0.05, 1, 0.05, 0.5), (0, 1, 0, 1)]
)
def test_intervals_cover_the_truth(seeds, repeats, least, spread):
    """400 worlds with effects of seed, image, repeat and all else; the truth is 0."""
    worlds, images = 400, 200
    if seeds == 1:  # one seed says nothing about seeds
        spread = (0, *spread[1:2], 0, *spread[3:])
    rng = np.random.default_rng(1)
    shapes = [(seeds, 1, 1), (1, 1, images), (seeds, repeats, 1), (seeds, repeats, images)]
    values = sum(
        rng.normal(0, std, (worlds, *shape)) for std, shape in zip(spread, shapes, strict=True)
    )
    means = values.mean((1, 2, 3))
    free = freedom((seeds, repeats, images))
    pairs = zip(means, resample(values), strict=True)
    low, high = np.array([interval(mean, draws, free)[1:] for mean, draws in pairs]).T
    covered = np.mean((low <= 0) & (high >= 0))
    assert least <= covered <= 1
    width, needed = np.median(high - low), 2 * 1.96 * means.std()
    assert width < (3.5 if seeds < 3 else 2.4) * needed  # and are not just wide


def test_it_is_deterministic_and_exact_for_constants():
    values = np.random.default_rng(2).random((3, 40))
    assert bootstrap(values) == bootstrap(values.copy())
    assert bootstrap(np.full((2, 9), 0.5)) == pytest.approx((0.5, 0.5, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "least"), [(2, 0.85), (3, 0.89), (5, 0.91)])
def test_intervals_of_paired_differences_cover_the_truth(seeds, least):
    """Images decide each row and cancel in the difference, which seeds decide."""
    rng, worlds, images = np.random.default_rng(0), 400, 100
    shared = rng.normal(0, 1, (worlds, 1, 1, images))
    rows = []
    for _ in range(2):
        own = rng.normal(0, 0.1, (worlds, seeds, 1, 1))
        rows.append(shared + own + rng.normal(0, 0.05, (worlds, seeds, 1, images)))
    draws = resample(rows[0]) - resample(rows[1])
    means = (rows[0] - rows[1]).mean((1, 2, 3))
    free = freedom((seeds, 1, images))
    pairs = zip(means, draws, strict=True)
    low, high = np.array([interval(mean, each, free)[1:] for mean, each in pairs]).T
    assert least <= np.mean((low <= 0) & (high >= 0))


def test_many_intervals_at_once_are_those_of_each():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(4, 3, 2, 50)) + rng.normal(size=(4, 3, 1, 1))
    draws, free = resample(values), freedom(values.shape[1:])
    means, bounds = values.mean((1, 2, 3)), [(-9.0, 9.0), (0.0, 1.0), (-1.0, 1.0), (-9.0, 9.0)]
    found = intervals(means, draws, free, bounds)
    for number, one in enumerate(found):
        assert one == pytest.approx(
            interval(means[number], draws[number], free, bounds[number]), rel=1e-12
        )
    flat = np.full((1, 1, 1, 50), 0.3)
    assert intervals(np.array([0.3]), resample(flat), (0, 49), bounds[:1]) == [
        pytest.approx((0.3, 0.3, 0.3))
    ]


def test_draws_are_weighted_means_of_all_values():
    """Against one product with all weights, written out."""
    values = np.random.default_rng(6).normal(size=(2, 3, 1, 20))
    of_seeds, of_images = _weights(3, 20)
    wanted = np.einsum("bs,bi,ksi->kb", of_seeds, of_images, values[:, :, 0])
    np.testing.assert_allclose(resample(values), wanted, rtol=1e-12, atol=1e-14)
