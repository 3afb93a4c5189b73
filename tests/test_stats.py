import numpy as np
import pytest
from scipy.stats import norm, t

from smashbench.bench.report.statistics import DRAWS, _weights, freedom, interval, means, resample


def mean_of(values):
    """Of values (seeds, images) or (seeds, repeats, images)."""
    return means(np.reshape(values, (1, len(values), -1, np.shape(values)[-1])))[0]


def half_width(estimate):
    assert estimate.high - estimate.mean == pytest.approx(estimate.mean - estimate.low)
    return (estimate.high - estimate.low) / 2


def test_one_seed_has_students_interval_over_its_images():
    values = np.random.default_rng(0).normal(2.0, 3.0, size=(1, 40))
    found = mean_of(values)
    assert found.mean == pytest.approx(values.mean())
    half = t.ppf(0.975, 39) * values.std(ddof=1) / 40**0.5
    assert half_width(found) == pytest.approx(half, rel=1e-9)


def test_the_same_images_under_every_seed_count_once():
    """Images' difficulty is shared: more seeds of the same numbers add no information."""
    difficulty = np.random.default_rng(1).normal(size=(1, 500))
    assert mean_of(np.repeat(difficulty, 10, axis=0)) == pytest.approx(mean_of(difficulty))


@pytest.mark.parametrize("seeds", [2, 5, 20])
def test_seeds_that_make_all_the_difference_have_students_interval(seeds):
    """Half-width t s / sqrt(n) with s of n - 1 degrees of freedom."""
    offsets = np.random.default_rng(seeds).normal(size=(seeds, 1))
    half = t.ppf(0.975, seeds - 1) * offsets.std(ddof=1) / seeds**0.5
    assert half_width(mean_of(offsets + np.zeros((seeds, 100)))) == pytest.approx(half, rel=1e-9)


def test_seeds_and_images_add_up():
    """By hand: means of seeds 2 and 4, of images 1, 3 and 5, and nothing else: variances 2 / 2
    and 4 / 3, with Satterthwaite's 1 and 2 degrees of freedom."""
    values = np.array([[0.0, 2, 4], [2, 4, 6]])
    variances = np.array([2 / 2, 4 / 3])
    n = variances.sum() ** 2 / (variances**2 / [1, 2]).sum()
    found = mean_of(values)
    assert found.mean == 3
    assert half_width(found) == pytest.approx(t.ppf(0.975, n) * variances.sum() ** 0.5)


def test_repeats_on_one_victim_count_and_on_several_follow_their_victim():
    rng = np.random.default_rng(0)
    repeats = rng.normal(size=(1, 12, 1)) + np.zeros((1, 12, 60))
    half = t.ppf(0.975, 11) * repeats[0, :, 0].std(ddof=1) / 12**0.5
    assert half_width(mean_of(repeats)) == pytest.approx(half, rel=1e-9)
    several = rng.normal(size=(6, 4, 80))
    assert mean_of(several) == pytest.approx(mean_of(several.mean(1)))


def test_standard_errors_of_means_are_those_of_the_bootstrap():
    """The closed form against 2,000 resamples, where seeds, images and both make a difference."""
    rng = np.random.default_rng(3)
    parts = (
        rng.normal(size=(4, 5, 1, 1)),
        rng.normal(size=(4, 1, 1, 40)),
        rng.normal(size=(4, 5, 1, 40)),
    )
    values = parts[0] + 2 * parts[1] + 3 * parts[2]
    for found, draws in zip(means(values), resample(values), strict=True):
        by_draws = interval(found.mean, draws, freedom(values.shape[1:]))
        assert half_width(found) == pytest.approx((by_draws.high - by_draws.low) / 2, rel=0.1)


def test_means_keep_their_bounds():
    values = np.array([[0.0] * 50, [1.0] * 50])[None, :, None]
    assert means(values, [(0, 1)]) == [(0.5, 0, 1)]
    assert means(np.full((2, 3, 2, 9), 0.5)) == [pytest.approx((0.5, 0.5, 0.5))] * 2


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
    [(1, 1, 0.93), (2, 1, 0.88), (3, 1, 0.91), (3, 3, 0.9), (5, 2, 0.93)],
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
    free = freedom((seeds, repeats, images))
    middle = values.mean((1, 2, 3))
    by_draws = [
        interval(mean, draws, free) for mean, draws in zip(middle, resample(values), strict=True)
    ]
    for found in (means(values), by_draws):
        _, low, high = np.transpose(found)
        covered = np.mean((low <= 0) & (high >= 0))
        assert least <= covered <= 1
        width, needed = np.median(high - low), 2 * 1.96 * middle.std()
        assert width < (3.6 if seeds < 3 else 2.4) * needed  # and are not just wide


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
    free = freedom((seeds, 1, images))
    pairs = zip((rows[0] - rows[1]).mean((1, 2, 3)), draws, strict=True)
    low, high = np.array([interval(mean, each, free)[1:] for mean, each in pairs]).T
    assert least <= np.mean((low <= 0) & (high >= 0))


def test_an_interval_of_draws_is_the_quantiles_stretched():
    draws = np.random.default_rng(5).normal(size=DRAWS)
    draws[-400:] = 1.0  # of images alone: no variance, so that Student's is of 4 degrees
    low, high = np.quantile(draws[:2000], [0.025, 0.975])
    stretch = t.ppf(0.975, 4) / norm.ppf(0.975)
    wanted = (0.1, 0.1 + stretch * (low - 0.1), 0.1 + stretch * (high - 0.1))
    assert interval(0.1, draws, (4, 49)) == pytest.approx(wanted, rel=1e-12)


def test_draws_are_weighted_means_of_all_values():
    """Against one product with all weights, written out."""
    values = np.random.default_rng(6).normal(size=(2, 3, 1, 20))
    of_seeds, of_images = _weights(3, 20)
    wanted = np.einsum("sb,ib,ksi->kb", of_seeds, of_images, values[:, :, 0])
    np.testing.assert_allclose(resample(values), wanted, rtol=1e-12, atol=1e-14)
