import numpy as np
import pytest

from bench.stats import bootstrap


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


def test_seeds_that_differ_widen_the_interval():
    offsets = np.linspace(-1, 1, 8)[:, None]
    found = bootstrap(np.zeros((8, 100)) + offsets)
    assert found.high - found.low == pytest.approx(2 * 1.96 * offsets.std() / 8**0.5, rel=0.15)


def test_it_is_deterministic_and_exact_for_constants():
    values = np.random.default_rng(2).random((3, 40))
    assert bootstrap(values) == bootstrap(values.copy())
    assert bootstrap(np.full((2, 9), 0.5)) == pytest.approx((0.5, 0.5, 0.5))
