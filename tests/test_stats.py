import numpy as np
import pytest
from scipy.stats import norm, t

from smashbench.bench.report.images import by_group
from smashbench.bench.report.quantiles import behrens_fisher
from smashbench.bench.report.statistics import (
    DRAWS,
    PARTS,
    RESAMPLES,
    ROLES,
    _of_images,
    _of_seeds,
    freedom,
    interval,
    jointly,
    means,
    resample,
)


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
    and 4 / 3, of 1 and 2 degrees of freedom."""
    found = mean_of(np.array([[0.0, 2, 4], [2, 4, 6]]))
    assert found.mean == 3
    quantile = float(behrens_fisher(np.array(1.0), np.array(7 / 3), (1, 2)))
    assert half_width(found) == pytest.approx(quantile * (7 / 3) ** 0.5)


def test_what_neither_seeds_nor_images_explain_counts_once():
    """Both of their variances have it: 2 of the 3 are taken out, down to the larger of the two."""
    values = np.random.default_rng(4).normal(size=(4, 1, 5, 30))
    rest = values - values.mean(1, keepdims=True) - values.mean(3, keepdims=True)
    rest = rest + values.mean((1, 3), keepdims=True)
    draws = resample(values.transpose(0, 2, 1, 3))
    seeds, images = (
        values.mean(3)[:, 0].var(1, ddof=1) / 5,
        values.mean(2)[:, 0].var(1, ddof=1) / 30,
    )
    for index, found in enumerate(means(values.transpose(0, 2, 1, 3))):
        table = values[index, 0]
        away = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
        both = (away**2).sum() / (4 * 29) / 150
        variance = max(seeds[index] + images[index] - both, seeds[index], images[index])
        free = freedom((5, 1, 30))
        quantile = behrens_fisher(np.array(seeds[index]), np.array(variance), free)
        assert half_width(found) == pytest.approx(float(quantile) * variance**0.5)
        by_draws = interval(found.mean, draws[index], free)
        assert by_draws.high - by_draws.low == pytest.approx(found.high - found.low, rel=0.15)


def test_repeats_on_one_victim_count_and_on_several_follow_their_victim():
    rng = np.random.default_rng(0)
    repeats = rng.normal(size=(1, 12, 1)) + np.zeros((1, 12, 60))
    half = t.ppf(0.975, 11) * repeats[0, :, 0].std(ddof=1) / 12**0.5
    assert half_width(mean_of(repeats)) == pytest.approx(half, rel=1e-9)
    several = rng.normal(size=(6, 4, 80))
    assert mean_of(several) == pytest.approx(mean_of(several.mean(1)))


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


def varied(draws, **deviations):
    """Draws of which the seeds of each role, and images, vary so much alone, all others not."""
    made = draws.copy()
    made[RESAMPLES:] = 1.0
    for name, deviation in deviations.items():
        start = RESAMPLES + [*ROLES, "images"].index(name) * PARTS
        part = draws[start : start + PARTS]
        made[start : start + PARTS] = deviation * (part - part.mean()) / part.std()
    return made


def test_an_interval_of_draws_is_the_quantiles_stretched():
    """Seeds alone do all that both do, images alone nothing: Student's of 4 degrees."""
    draws = np.random.default_rng(5).normal(size=DRAWS)
    both = draws[:RESAMPLES]
    draws = varied(draws, defense=both.std())
    low, high = np.quantile(both, [0.025, 0.975])
    stretch = t.ppf(0.975, 4) / norm.ppf(0.975)
    wanted = (0.1, 0.1 + stretch * (low - 0.1), 0.1 + stretch * (high - 0.1))
    assert interval(0.1, draws, (4, 49)) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize(
    ("variances", "degrees"),
    [((0, 0, 1), 2), ((0, 1, 1), 4), ((1, 1, 1), 6), ((0, 1, 3), 2 * 16 / 10)],
)
def test_seeds_of_several_roles_have_the_degrees_of_freedom_of_welch(variances, degrees):
    """(v + w)^2 / (v^2 / 2 + w^2 / 2) for three seeds of each: 4 where both matter as much."""
    draws = np.random.default_rng(5).normal(size=DRAWS)
    spread = draws[:RESAMPLES].std()
    each = dict(zip(ROLES, spread * np.sqrt(np.array(variances) / sum(variances)), strict=True))
    low, high = np.quantile(draws[:RESAMPLES], [0.025, 0.975])
    found = interval(0.0, varied(draws, **each), (2, 49))
    stretch = t.ppf(0.975, degrees) / norm.ppf(0.975)
    assert found == pytest.approx((0, stretch * low, stretch * high), rel=1e-3)


def test_a_difference_of_two_rows_has_the_interval_of_welch():
    """Two means of three trainings, of a defense and of noise, whose test images all err alike."""
    rng = np.random.default_rng(11)
    own, noise = rng.normal(0.4, 0.05, 3), rng.normal(0.3, 0.02, 3)
    draws = [
        resample(np.broadcast_to(each[None, :, None, None], (1, 3, 1, 60)), role)[0]
        for each, role in ((own, "defense"), (noise, "baseline"))
    ]
    v, w = own.var(ddof=1) / 3, noise.var(ddof=1) / 3
    half = t.ppf(0.975, (v + w) ** 2 / (v**2 / 2 + w**2 / 2)) * (v + w) ** 0.5
    mean = own.mean() - noise.mean()
    found = interval(mean, draws[0] - draws[1], (2, 59))
    assert found == pytest.approx((mean, mean - half, mean + half), rel=0.1)


def test_intervals_that_hold_at_once_are_wider_by_how_many_there_are():
    """One value alone keeps its interval; of ten independent ones each has Sidak's; ten times the
    same is one where images decide it, and is ten where seeds do, for every row has its own."""
    rng = np.random.default_rng(7)
    free = (10**6, 10**6)  # no stretch
    draws = rng.normal(size=(10, DRAWS))
    draws = np.stack([varied(each, defense=0.5**0.5, images=0.5**0.5) for each in draws])
    alone = interval(0.0, draws[0], free)
    assert jointly({0: (0.0, draws[0], free)})[0] == pytest.approx(alone, rel=0.03)
    wide = norm.ppf(1 - (1 - 0.95**0.1) / 2) / norm.ppf(0.975)
    for what, wider in (("images", 1), ("defense", wide)):
        one = varied(draws[0], **{what: 1.0})
        single = np.array(interval(0.0, one, free))
        found = jointly(dict.fromkeys(range(10), (0.0, one, free)))[9]
        assert found == pytest.approx(wider * single, rel=0.05)
    at_once = jointly({n: (0.0, each, free) for n, each in enumerate(draws)})
    for each, found in zip(draws, at_once.values(), strict=True):
        single = interval(0.0, each, free)
        assert found.low / single.low == pytest.approx(wide, rel=0.03)
        assert found.high / single.high == pytest.approx(wide, rel=0.03)
    assert jointly({}) == {}


def test_values_that_are_missing_in_some_draws_do_not_disturb_the_others():
    draws = np.random.default_rng(8).normal(size=(2, DRAWS))
    alone = jointly({0: (0.0, draws[0], (2, 99))})[0]
    whole = jointly({n: (0.0, each, (2, 99)) for n, each in enumerate(draws)})[0]
    draws[1, ::2] = np.nan
    found = jointly({n: (0.0, each, (2, 99)) for n, each in enumerate(draws)})[0]
    assert whole.low < found.low < alone.low
    draws[1] = np.nan
    found = jointly({n: (0.0, each, (2, 99)) for n, each in enumerate(draws)})[0]
    assert found == pytest.approx(alone, rel=0.03)


def test_groups_are_what_is_drawn():
    """Of groups of one size: their means. Of any size: the standard error of a ratio."""
    rng = np.random.default_rng(9)
    values = rng.normal(size=(2, 3, 1, 12))
    groups = np.repeat([4, 1, 9, 0], 3)
    expected = values.reshape(2, 3, 1, 4, 3).mean(-1)[..., [3, 1, 0, 2]]  # by their ids
    np.testing.assert_allclose(by_group(values, groups), expected)
    assert by_group(values, None) is values
    uneven = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4])
    table = by_group(values[:, :1], uneven)
    np.testing.assert_allclose(table.mean(3), values[:, :1].mean(3))
    away = values[0, 0, 0] - values[0, 0, 0].mean()
    sums = np.bincount(uneven, away)
    assert table[0].std(ddof=1) / 5**0.5 == pytest.approx((5 / 4 * (sums**2).sum()) ** 0.5 / 12)


def test_draws_are_weighted_means_of_all_values():
    """Against one product with all weights, written out."""
    values = np.random.default_rng(6).normal(size=(2, 3, 1, 20))
    of_images = np.full((20, DRAWS), 1 / 20)
    drawn = _of_images(20)
    of_images[:, :RESAMPLES], of_images[:, -PARTS:] = drawn[:, :RESAMPLES], drawn[:, RESAMPLES:]
    of_seeds = _of_seeds(3, "baseline")
    wanted = np.einsum("sb,ib,ksi->kb", of_seeds, of_images, values[:, :, 0])
    found = resample(values, "baseline")
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_seeds_are_drawn_for_each_role_and_images_for_all():
    """Of values that differ by seed alone, draws of two roles do not pair; of values that differ by
    image alone, all do. Seeds of a role vary alone in the part that is theirs."""
    by_seed = np.random.default_rng(6).normal(size=(1, 3, 1, 1)) + np.zeros((1, 3, 1, 40))
    by_image = np.random.default_rng(7).normal(size=(1, 1, 1, 40)) + np.zeros((1, 3, 1, 40))
    seeds, images = ([resample(each, role)[0] for role in ROLES] for each in (by_seed, by_image))
    np.testing.assert_allclose(images, np.broadcast_to(images[0], (3, DRAWS)))
    together = np.corrcoef([each[:RESAMPLES] for each in seeds])
    assert np.abs(together - np.eye(3)).max() < 0.1
    for role, drawn in zip(ROLES, seeds, strict=True):
        parts = drawn[RESAMPLES:].reshape(len(ROLES) + 1, PARTS)
        assert (parts.std(1) > 1e-9).tolist() == [name == role for name in (*ROLES, "images")]
        np.testing.assert_array_equal(resample(by_seed, role)[0], drawn)


def test_an_interval_holds_its_mean():
    draws = np.random.default_rng(0).normal(size=DRAWS)
    assert interval(5.0, draws, (0, 10**9)).high == 5
    assert interval(-5.0, draws, (0, 10**9)).low == -5


def test_a_value_that_never_varies_costs_the_others_nothing():
    draws, free = np.random.default_rng(7).normal(size=DRAWS), (10**6, 10**6)
    alone = jointly({0: (0.0, draws, free)})[0]
    found = jointly({0: (0.0, draws, free), 1: (0.0, np.zeros(DRAWS), free)})
    assert found[0] == pytest.approx(alone, rel=0.03)


def test_joint_intervals_weigh_seeds_and_images_as_they_vary():
    rng, free, n = np.random.default_rng(3), (10**6, 10**6), 30
    one = rng.normal(size=DRAWS)
    one[:RESAMPLES] *= 2**0.5  # seeds and images vary alike
    one[RESAMPLES + PARTS : -PARTS] = 0
    found = jointly(dict.fromkeys(range(n), (0.0, one, free)))[0]
    worst = np.abs((rng.normal(size=(40_000, 1)) + rng.normal(size=(40_000, n))) / 2**0.5).max(1)
    wide = np.quantile(worst, 0.95) / norm.ppf(0.975)
    single = interval(0.0, one, free)
    assert (found.high - found.low) / (single.high - single.low) == pytest.approx(wide, rel=0.025)
