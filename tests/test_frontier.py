"""Frontiers, ranks and paired comparisons, on numbers one can check by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.comparisons import OVER_NOISE, against_noise, by_defense
from smashbench.bench.report.flags import raise_flags
from smashbench.bench.report.frontier import advantage, privacy_at, privacy_within, ranks
from smashbench.bench.report.statistics import DRAWS, PARTS, RESAMPLES, ROLES, Estimate
from smashbench.bench.report.verdict import verdict
from smashbench.bench.report.view import Panel, view
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests import forge

POINTS = st.lists(
    st.tuples(st.floats(0.1, 1), st.floats(0, 1)), min_size=1, max_size=6, unique_by=lambda p: p[0]
)


def columns(points) -> tuple[np.ndarray, np.ndarray]:
    accuracy, privacy = np.array(points).T
    return accuracy[:, None], privacy[:, None]


def test_an_advantage_is_a_mean_over_the_common_accuracies():
    """Frontiers 1.1 - accuracy and 1 - accuracy where both are, whatever lies beyond."""
    own = columns([(0.95, 0.15), (0.8, 0.3), (0.6, 0.5)])
    other = columns([(0.9, 0.1), (0.6, 0.4), (0.4, 0.95)])
    for first, second, expected in ((own, other, 0.1), (other, own, -0.1)):
        mean, low, high = (float(each[0]) for each in advantage(first, second))
        assert mean == pytest.approx(expected)
        assert (low, high) == (0.6, 0.9)


def test_an_advantage_on_bent_frontiers_is_the_whole_mean():
    """.1 over accuracies .8 to .9 in the mean, .3 over .5 to .8."""
    bent = columns([(0.9, 0.2), (0.8, 0.6), (0.5, 0.6)])
    mean, _, _ = advantage(bent, columns([(0.9, 0.1), (0.5, 0.1)]))
    assert mean[0] == pytest.approx((0.1 * 0.3 + 0.3 * 0.5) / 0.4, abs=1e-9)


def test_frontiers_that_share_no_accuracy_are_not_compared():
    found = advantage(columns([(0.9, 0.1), (0.8, 0.2)]), columns([(0.7, 0.3), (0.5, 0.5)]))
    assert all(np.isnan(each[0]) for each in found)
    (one, *_) = advantage(columns([(0.85, 0.4)]), columns([(0.9, 0.1), (0.8, 0.2)]))
    assert one[0] == pytest.approx(0.4 - 0.15)  # one strength: a range of one accuracy


@given(POINTS)
def test_a_frontier_has_no_advantage_over_itself(points):
    assert advantage(columns(points), columns(points))[0][0] == pytest.approx(0, abs=1e-12)


@given(st.lists(st.floats(0.1, 0.9), min_size=2, max_size=6, unique=True), st.integers(1, 5))
def test_a_longer_sweep_of_the_same_frontier_is_worth_nothing(accuracies, kept):
    points = [(accuracy, 1 - accuracy) for accuracy in sorted(accuracies)]
    mean, low, _ = advantage(columns(points), columns(points[:kept]))
    assert mean[0] == pytest.approx(0, abs=1e-9)
    assert low[0] == points[0][0]


@given(POINTS, st.floats(0.1, 1))
def test_privacy_at_an_accuracy_lies_on_the_frontier(points, target):
    found = privacy_at(*columns(points), np.array([target]))[0]
    enough = [privacy for accuracy, privacy in points if accuracy >= target]
    if not enough:
        assert np.isnan(found)
        return
    beaten = [any((b > a and q >= p) or (b >= a and q > p) for b, q in points) for a, p in points]
    frontier = sorted(point for point, worse in zip(points, beaten, strict=True) if not worse)
    expected = np.interp(target, *np.array(frontier).T)
    assert found == pytest.approx(expected, abs=1e-9)
    assert found >= max(enough) - 1e-12


@given(POINTS, st.floats(0.1, 1))
def test_within_a_sweep_nothing_is_known_beyond_its_ends(points, target):
    found = privacy_within(*columns(points), np.array([target]))[0]
    inside = min(a for a, _ in points) <= target <= max(a for a, _ in points)
    assert np.isfinite(found) == inside
    if inside:
        assert found == privacy_at(*columns(points), np.array([target]))[0]


def test_draws_more_accurate_than_a_sweep_are_compared_with_its_most_accurate_point():
    accuracy, privacy = np.array([[0.9, 0.9], [0.8, 0.8]]), np.array([[0.2, 0.3], [0.6, 0.6]])
    np.testing.assert_allclose(
        privacy_within(accuracy, privacy, np.array([0.85, 0.95])), [0.4, 0.3]
    )
    np.testing.assert_array_equal(  # but not where the measured one is beyond the sweep
        privacy_within(accuracy, privacy, np.array([0.95, 0.85])), [np.nan, np.nan]
    )


def test_of_equally_accurate_points_the_most_private_counts():
    for privacies in ([0.2, 0.5, 0.6], [0.2, 0.6, 0.5]):
        points = columns(list(zip([0.9, 0.8, 0.8], privacies, strict=True)))
        assert privacy_at(*points, np.array([0.85]))[0] == pytest.approx(0.4)


def test_each_draw_has_its_own_frontier():
    accuracy = np.array([[0.9, 0.7], [0.8, 0.95]])
    privacy = np.array([[0.2, 0.6], [0.6, 0.1]])
    found = privacy_at(accuracy, privacy, np.array([0.85, 0.7]))
    np.testing.assert_allclose(found, [0.4, 0.6])


def test_ranks_tie_where_intervals_overlap():
    chain = [Estimate(m, m - 0.6, m + 0.6) for m in (3, 2, 1)]
    assert ranks(chain) == [(1, 2), (1, 3), (2, 3)]
    assert ranks([Estimate(m, m, m) for m in (1, 3, 2)]) == [(3, 3), (1, 1), (2, 2)]


def row(defense, strength, accuracy, error, noise=0.0, jitter=0.0) -> Row:
    """A row whose draws deviate together with those of every other row, and by ``jitter`` alone."""
    ends = (-0.05, 0.05)  # of images: seeds alone do nothing
    seeds = np.zeros(len(ROLES) * PARTS)
    shared = np.concatenate([np.linspace(*ends, RESAMPLES), seeds, np.linspace(*ends, PARTS)])
    own = jitter * np.random.default_rng(0).normal(size=DRAWS)
    role = forge.ROLES.get(defense, "defense")
    made = Row(defense, strength, role, seeds=[0, 1], chance=0.1, noise=noise)
    made.freedom = (0, 10**9)  # images without end: no stretch
    draws = {"accuracy": accuracy + shared, "mse": error * (1 + 2 * shared) + own}
    made.draws = draws | {"fvu": draws["mse"] / 0.1}
    made.accuracy = Estimate(accuracy, accuracy - 0.0475, accuracy + 0.0475)
    values = dict.fromkeys(METRICS, error) | {"fvu": error / 0.1}
    made.attacks = {"gmm": forge.attack_summary(values)}
    return made


def board(*rows) -> Board:
    return Board(Suite("hand", "", (), ()), list(rows), {}, Store(Path()))


def by_name(*rows) -> dict[str, dict[str, object]]:
    """The table of defenses, by label."""
    return {line["defense"]: line for line in by_defense(board(*rows)).to_dict("records")}


def test_paired_differences_cancel_what_rows_share():
    plain, better = row("noise", 0.1, 0.9, 0.02, 0.1), row("cem", 5.0, 0.88, 0.03, 0.1)
    found = against_noise(board(plain, better))
    assert found["cem", 5.0]["accuracy_over_noise"] == pytest.approx((-0.02, -0.02, -0.02))
    assert found["cem", 5.0]["mse_over_noise"].mean == pytest.approx(0.01)
    low = found["cem", 5.0]["mse_over_noise"].low
    assert low == pytest.approx(0.01 * (1 - 0.1), rel=0.02)  # of the first 2,000 draws
    assert found["noise", 0.1]["mse_over_noise"] is None


def test_a_row_is_compared_with_noise_of_its_own_strength_and_seeds():
    plain, other = row("noise", 0.1, 0.9, 0.02, 0.1), row("noise", 0.4, 0.8, 0.05, 0.4)
    cem = row("cem", 5.0, 0.88, 0.03, 0.4)
    found = against_noise(board(plain, other, cem))
    assert found["cem", 5.0]["mse_over_noise"].mean == pytest.approx(-0.02)
    # at accuracy .88 the frontier of noise has FVU .2 + (.5 - .2) * .02 / .1 = .26
    assert found["cem", 5.0]["fvu_over_noise"].mean == pytest.approx(0.3 - 0.26)
    other.seeds = plain.seeds = [0]
    nothing = dict.fromkeys(OVER_NOISE)
    assert against_noise(board(plain, other, cem))["cem", 5.0] == nothing
    assert set(nothing) == {"accuracy_over_noise", "mse_over_noise", "fvu_over_noise"}


def test_beyond_the_sweep_of_noise_there_is_no_comparison():
    """More noise would beat less noise there, and so would a release that says nothing."""
    plain = [row("noise", s, a, e, s) for s, a, e in ((0.1, 0.9, 0.02), (0.4, 0.8, 0.05))]
    constant, inside = row("cem", 9.0, 0.5, 0.1), row("cem", 1.0, 0.85, 0.03)
    accurate, none = row("cem", 0.1, 0.96, 0.01), row("none", None, 0.95, 0.01)
    for each in (*plain, constant, inside, accurate, none):
        each.accuracy = Estimate(each.draws["accuracy"].mean(), 0, 1)
        each.draws["accuracy"] = np.full(DRAWS, each.accuracy.mean)
    made = board(none, *plain, constant, inside, accurate)
    found = against_noise(made)
    assert found["cem", 9.0]["fvu_over_noise"] is None
    assert found["cem", 0.1]["fvu_over_noise"] is None
    assert found["cem", 1.0]["fvu_over_noise"].mean == pytest.approx(0.3 - 0.35)
    raise_flags(made)
    flagged = [each.key for each in made.rows if "beyond_noise" in each.flags]
    assert flagged == [("cem", 9.0), ("cem", 0.1)]


def test_two_rows_of_the_same_noise_are_compared_with_each_other():
    """As merged folders may have them."""
    one, two = row("noise", 0.4, 0.8, 0.05, 0.4), row("noise", 0.4, 0.81, 0.04, 0.4)
    two.defense = "noise (theirs)"
    found = against_noise(board(one, two))
    assert found["noise", 0.4]["mse_over_noise"].mean == pytest.approx(0.01)
    assert found["noise (theirs)", 0.4]["mse_over_noise"].mean == pytest.approx(-0.01)


def test_a_line_per_defense():
    none = row("none", None, 0.95, 0.01)
    plain = [row("noise", 0.1, 0.93, 0.02, 0.1), row("noise", 0.4, 0.85, 0.05, 0.4)]
    better = [row("cem", 0.1, 0.92, 0.03375), row("cem", 1.0, 0.88, 0.04875)]
    lines = by_name(none, *plain, *better)
    assert set(lines) == {"none", "noise", "cem"}
    noise, cem = lines["noise"], lines["cem"]
    assert noise["strengths"] == 2
    assert noise["fvu_at_2_points"] == pytest.approx(0.2)
    assert noise["fvu_at_5_points"] == pytest.approx(0.2 + 0.3 * 0.03 / 0.08)
    assert noise["fvu_at_1_points"] == pytest.approx(0.15)  # from none, which is noise of 0
    assert lines["none"]["fvu_at_1_points"] == pytest.approx(0.1)
    # noise has FVU .2375 at .92 and .3875 at .88: cem has .1 more, on a line of the same slope
    assert cem["fvu_over_noise"] == pytest.approx(0.1)
    assert (cem["from_accuracy"], cem["to_accuracy"]) == pytest.approx((0.88, 0.92))
    assert cem["fvu_over_noise_joint_low"] > 0
    assert noise["fvu_over_noise"] == noise["fvu_over_noise_low"] == 0
    assert pd.isna(noise["fvu_over_noise_joint_low"])
    assert [lines[name]["rank_best"] for name in ("cem", "noise")] == [1, 2]
    assert pd.isna(lines["none"]["rank_best"])  # the undefended model is no defense


def test_without_an_undefended_row_there_is_no_loss_of_accuracy():
    (line,) = by_name(row("noise", 0.1, 0.93, 0.02, 0.1)).values()
    assert pd.isna(line["fvu_at_1_points"])
    assert line["rank_best"] == line["rank_worst"] == 1


def test_without_noise_nothing_is_ranked():
    (line,) = by_name(row("cem", 0.1, 0.93, 0.02)).values()
    assert pd.isna(line["rank_best"])
    assert pd.isna(line["fvu_over_noise"])


def test_the_verdict_names_who_beats_noise_and_what_a_conclusion_needs():
    plain = [row("noise", 0.1, 0.93, 0.02, 0.1), row("noise", 0.4, 0.85, 0.05, 0.4)]
    better, worse = row("cem", 0.1, 0.9, 0.04), row("cem", 1.0, 0.9, 0.02)
    told = verdict(board(*plain, better, worse))
    assert told[0].startswith("2 rows are compared with noise")
    assert told[0].endswith("in all of them at once: cem 0.1.")
    assert "rows have 2 trainings and 1 fit of their strongest attack at least" in told[1]
    for each in (*plain, better, worse):
        each.seeds, each.attack_seeds = [0, 1, 2], 2
    (alone,) = verdict(board(*plain, worse))
    assert alone.startswith("One row is compared")
    assert alone.endswith("at once: none.")
    assert verdict(board(*plain)) == []


def test_a_panel_of_several_spans_its_own_accuracies():
    """From .7, where its defense ends, and not from .65, where noise does; but three tenths of the
    whole where its defense spans next to nothing."""
    accuracies = {"none": 0.9, "noise": 0.65, "cem": 0.7, "topk": 0.899}
    rows = [row(name, None, mean, 0.02) for name, mean in accuracies.items()]
    for each in rows:
        each.accuracy = Estimate(*[each.accuracy.mean] * 3)
    seen = view(board(*rows), METRICS["mse"])
    assert seen.marked == seen.drawn == rows
    assert seen.within(Panel("", list(accuracies))) == seen
    sparse = seen.within(Panel("sparsity", ["none", "noise", "topk"]))
    assert sparse.x == pytest.approx((0.9 - 0.3 * 0.25, 0.9))
    assert [each.defense for each in sparse.marked] == ["none", "topk"]
    cem = seen.within(Panel("CEM", ["none", "noise", "cem"]))
    assert cem.x == (0.7, 0.9)
    assert [each.defense for each in cem.marked] == ["none", "cem", "topk"]
    assert cem.drawn == rows


def test_noise_far_below_the_others_leaves_them_the_axis():
    """Noise that reaches down to .5 would have half of it, and noise that reaches to .65 a fifth;
    the line goes on to where it is cut off."""
    accuracies = {1: 0.88, 2: 0.72, 3: 0.5}
    noise = [row("noise", n, mean, 0.02 * n) for n, mean in accuracies.items()]
    others = [row("none", None, 0.9, 0.01), row("cem", 1, 0.7, 0.03)]
    for each in (*noise, *others):
        each.accuracy = Estimate(*[each.accuracy.mean] * 3)
    seen = view(board(*others, *noise), METRICS["mse"])
    assert [each.label for each in seen.beyond] == ["noise 3"]
    assert seen.x == (0.7, 0.9)
    assert seen.y[1] < noise[2].worst("mse").mean
    assert noise[2] not in seen.marked
    assert noise[2] in seen.line(noise)
    noise[2].accuracy = Estimate(*[0.65] * 3)
    near = view(board(*others, *noise), METRICS["mse"])
    assert (near.beyond, near.x) == ([], (0.65, 0.9))
    alone = view(board(others[0], *noise), METRICS["mse"])
    assert (alone.beyond, alone.x) == ([], (0.65, 0.9))


def test_one_wild_row_does_not_hide_the_others():
    """Intervals reach beyond the points by a sixth of their span at most, and so do floors."""
    wild = row("noise", 0.2, 0.8, 0.02, 0.2)
    wild.accuracy = Estimate(0.8, 0.0, 1.0)
    shown = board(row("none", None, 0.9, 0.01, 0.1), wild)
    shown.floors["mean_image"] = {"mse": 0.1, "ssim": 0.1}
    seen = view(shown, METRICS["fvu"])
    assert seen.x == pytest.approx((0.8 - 0.1 / 6, 0.9 + 0.1 / 6))
    assert seen.higher == {"mean_image": pytest.approx(1)}
    calm = board(row("none", None, 0.9, 0.01, 0.1), row("noise", 0.2, 0.8, 0.02, 0.2))
    calm.floors |= shown.floors
    for each, mean in zip(calm.rows, (0.9, 0.8), strict=True):
        each.accuracy = Estimate(mean, mean - 0.01, mean + 0.01)
    assert view(calm, METRICS["fvu"]).x == pytest.approx((0.79, 0.91))
