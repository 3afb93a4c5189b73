"""Defenses against noise and against each other, all at once."""

import numpy as np
import pytest
from scipy.stats import norm

from smashbench.bench.report.comparisons import against_noise, matched
from smashbench.bench.report.frontier import advantage
from smashbench.bench.report.verdict import verdict
from tests.test_frontier import board, by_name, columns, row
from tests.test_losses import NONE_ROW, control_and_noise, flat_noise, independent, sure


def test_an_advantage_that_grows_counts_by_its_mean():
    """From nothing at .9 to .4 at .5."""
    own, other = columns([(0.9, 0.1), (0.5, 0.5)]), columns([(0.9, 0.1), (0.5, 0.1)])
    assert advantage(own, other)[0][0] == pytest.approx(0.2)


def test_a_draw_in_which_all_is_more_accurate_meets_the_most_accurate_point():
    """In the second draw the strength is more accurate than the best of the other frontier, in the
    third that lies beyond its least accurate one."""
    own = np.array([[0.88, 0.95, 0.5]]), np.array([[0.4, 0.3, 0.5]])
    other = (np.tile([[0.9], [0.8]], 3), np.tile([[0.1], [0.2]], 3))
    mean, low, high = advantage(own, other)
    assert mean[:2] == pytest.approx([0.4 - 0.12, 0.3 - 0.1])
    assert (low[1], high[1]) == (0.9, 0.9)
    assert np.isnan([mean[2], low[2], high[2]]).all()
    beyond = own[0][:, [1, 0]], own[1][:, [1, 0]]
    assert np.isnan(advantage(beyond, tuple(each[:, :2] for each in other))).all()


def test_rows_are_compared_with_noise_all_at_once():
    rows = [independent("cem", n, n, 0.4) for n in range(8)]
    wide = norm.ppf(1 - (1 - 0.95 ** (1 / 8)) / 2) / norm.ppf(0.975)
    found = against_noise(board(*flat_noise(), *rows))
    for each in rows:
        one, joint = (found[each.key][f"fvu_over_noise{end}"] for end in ("", "_joint"))
        assert joint.high - joint.low == pytest.approx(wide * (one.high - one.low), rel=0.05)


def test_so_are_defenses_and_they_rank_by_that():
    rows = [independent(f"cem{n}", 1.0, n, 0.4) for n in range(8)]
    half = 1.96 * 0.05
    rows[0] = independent("cem0", 1.0, 0, 0.4 + 2.35 * half)
    lines = by_name(*flat_noise(), *rows)
    wide = norm.ppf(1 - (1 - 0.95 ** (1 / 8)) / 2) / norm.ppf(0.975)
    for n in range(8):
        line = lines[f"cem{n}"]
        one, joint = (
            line[f"fvu_over_noise{end}_high"] - line[f"fvu_over_noise{end}_low"]
            for end in ("", "_joint")
        )
        assert joint == pytest.approx(wide * one, rel=0.05)
    assert lines["cem0"]["fvu_over_noise_low"] > lines["cem1"]["fvu_over_noise_high"]
    assert (lines["cem0"]["rank_best"], lines["cem1"]["rank_best"]) == (1, 1)  # not told apart


def test_only_rows_of_the_same_seeds_are_one_frontier():
    plain = flat_noise()
    own, other = sure("cem", 1, 0.9, 0.03), sure("cem", 2, 0.9, 0.09)
    own.seeds, other.seeds = [0, 1], [0, 1, 2]
    assert by_name(*plain, own, other)["cem"]["fvu_over_noise"] == pytest.approx(0.1)


def test_no_sweep_leads_to_a_collapsed_row():
    """Between .9 and .15 a straight line says nothing."""
    works, collapsed = sure("cem", 1, 0.9, 0.03), sure("cem", 9, 0.15, 0.09)
    collapsed.least_accuracy = 0.15
    line = by_name(*flat_noise(), works, collapsed)["cem"]
    assert line["fvu_over_noise"] == pytest.approx(0.1)
    assert (line["from_accuracy"], line["to_accuracy"]) == (0.9, 0.9)
    assert np.isnan(by_name(*flat_noise(), collapsed)["cem"]["fvu_over_noise"])


def test_the_gain_over_noise_at_a_loss_is_a_column():
    lines = by_name(*control_and_noise(), sure("cem", 1, 0.93, 0.045))
    assert lines["cem"]["fvu_at_2_points"] == pytest.approx(0.45)
    assert lines["cem"]["fvu_over_noise_at_2_points"] == pytest.approx(0.2)


def test_defenses_at_equal_accuracy_are_below_the_undefended_one():
    table = matched(board(sure(*NONE_ROW), sure("cem", 1, 0.94, 0.02), sure("cem", 9, 0.89, 0.045)))
    assert table.accuracy_drop.tolist() == [0.01, 0.02, 0.05]
    assert table.accuracy.tolist() == pytest.approx([0.94, 0.93, 0.9])
    assert table.worst_mse.tolist() == pytest.approx([0.02, 0.025, 0.04])


def test_no_equal_accuracy_lies_between_a_row_that_works_and_one_that_collapsed():
    works, collapsed = sure("cem", 1, 0.945, 0.03), sure("cem", 9, 0.15, 0.09)
    collapsed.least_accuracy = 0.15
    assert matched(board(sure(*NONE_ROW), works, collapsed)).empty


def noise():
    return [row("noise", s, a, e, s) for s, a, e in ((0.1, 0.93, 0.02), (0.4, 0.85, 0.05))]


def test_a_conclusion_needs_several_fits_as_well_as_several_trainings():
    rows = [*noise(), row("cem", 0.1, 0.9, 0.04)]
    for seeds, fits_, told in (([0, 1, 2], 1, True), ([0, 1], 2, True), ([0, 1, 2], 2, False)):
        for each in rows:
            each.seeds, each.attack_seeds = seeds, fits_
        assert any("A demonstration" in line for line in verdict(board(*rows))) == told


def test_one_strength_is_no_sweep():
    rows = [*noise(), row("cem", 0.1, 0.9, 0.06)]
    made = board(*rows)
    assert made.sweeps.set_index("defense").fvu_over_noise_joint_low["cem"] > 0
    assert not any("whole sweeps" in line for line in verdict(made))
    collapsed = row("cem", 9, 0.15, 0.09)
    collapsed.least_accuracy = 0.15
    assert not any("whole sweeps" in line for line in verdict(board(*rows, collapsed)))


def test_the_row_with_the_fewest_trainings_decides():
    rows = noise()
    more = [row("noise", s, a, e, s) for s, a, e in ((0.2, 0.93, 0.02), (0.5, 0.85, 0.05))]
    few, many = row("cem", 0.1, 0.9, 0.04), row("cem", 1.0, 0.9, 0.04)
    for each in (*rows, few, *more, many):
        each.attack_seeds = 2
    for each in (*more, many):
        each.seeds = [0, 1, 2]
    told = " ".join(verdict(board(*rows, *more, few, many)))
    assert "2 rows are compared" in told
    assert "rows have 2 trainings" in told
