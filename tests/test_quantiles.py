"""Quantiles of two sources of variance, and intervals of values that do not vary."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binomtest, t

from smashbench.bench.report.images import by_group
from smashbench.bench.report.quantiles import behrens_fisher
from smashbench.bench.report.statistics import means


@pytest.mark.parametrize("level", [0.975, 0.998])
@pytest.mark.parametrize("degrees", [(2, 4), (4, 499), (1, 81)])
def test_quantiles_of_two_student_variables_are_those_of_quadrature(degrees, level):
    """The density of one times the probability that the sum is within the quantile."""
    first, second = (t(n) for n in degrees)
    for share in (0.1, 0.5, 0.9):
        cos, sin = share**0.5, (1 - share) ** 0.5
        wide = float(behrens_fisher(np.array(share), np.array(1.0), degrees, level))

        def within(value: float, cos=cos, sin=sin, wide=wide) -> float:
            ends = [(side * wide - sin * value) / cos for side in (-1, 1)]
            return second.pdf(value) * np.diff(first.cdf(ends))[0]

        assert quad(within, -60, 60, limit=200)[0] == pytest.approx(2 * level - 1, abs=3e-4)


def test_a_source_that_does_not_vary_leaves_students_quantile_of_the_other():
    for share, degrees in ((1.0, 4), (0.0, 49)):
        found = behrens_fisher(np.array(share), np.array(1.0), (4, 49))
        assert float(found) == pytest.approx(t.ppf(0.975, degrees), rel=1e-3)


@pytest.mark.parametrize(("value", "bounds"), [(1.0, (0, 1)), (0.0, (0, 1)), (-1.0, (-1, 1))])
def test_where_all_values_are_at_a_limit_the_interval_is_the_exact_one(value, bounds):
    """50 of 50: scipy's interval of Clopper and Pearson, scaled to what the mean can be."""
    (found,) = means(np.full((1, 3, 1, 50), value), [bounds])
    exact = binomtest(50, 50).proportion_ci().low
    wide = (bounds[1] - bounds[0]) * (1 - exact)
    assert found.mean == value
    assert found.high - found.low == pytest.approx(wide)
    assert bounds[0] <= found.low <= value <= found.high <= bounds[1]


def test_that_of_groups_counts_groups_and_an_error_may_be_nothing():
    scores = by_group(np.ones((1, 3, 1, 50)), np.arange(50) % 10)
    (found,) = means(scores, [(0.0, 1.0)])
    assert found.low == pytest.approx(0.025**0.1)
    assert means(np.zeros((1, 2, 1, 50)), [(0.0, np.inf)]) == [(0, 0, 0)]
