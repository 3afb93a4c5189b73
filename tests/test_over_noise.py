"""The figure of who beats noise over a sweep."""

import pytest

from smashbench.bench.report.figures.over_noise import OVER_NOISE
from smashbench.bench.report.settled import all_settled
from smashbench.bench.report.verdict import over_sweeps, verdict
from tests.test_frontier import board
from tests.test_losses import independent, sure


def test_the_figure_of_sweeps_shows_who_is_better_worse_and_neither():
    """In the order of their means, with the intervals of the table."""
    noise = [sure("noise", s, a, e) for s, a, e in ((1, 0.9, 0.03), (2, 0.7, 0.05))]
    sweeps = {"worse": -0.2, "better": 0.2, "alike": 0.0}
    rows = [
        independent(name, s, n + 3 * s, 0.1 * e + shift, accuracy=a)
        for n, (name, shift) in enumerate(sweeps.items())
        for s, a, e in ((1, 0.9, 3), (2, 0.7, 5))
    ]
    made = board(*noise, *rows, sure("once", 1, 0.8, 0.09))  # one strength is no sweep
    assert OVER_NOISE.applies(made)
    assert not OVER_NOISE.applies(board(*noise, *rows[:4]))  # two defenses
    (axes,) = OVER_NOISE.draw(made).axes
    assert [each.get_text() for each in axes.get_yticklabels()] == ["better", "alike", "worse"]
    table = made.sweeps.set_index("defense")
    for place, name in enumerate(("better", "alike", "worse")):
        joint, own, dot = axes.lines[3 * place : 3 * place + 3]
        assert {*joint.get_ydata(), *own.get_ydata(), *dot.get_ydata()} == {place}
        ends = table.loc[name, ["fvu_over_noise_joint_low", "fvu_over_noise_joint_high"]]
        assert list(joint.get_xdata()) == list(ends)
        assert list(own.get_xdata()) == list(
            table.loc[name, ["fvu_over_noise_low", "fvu_over_noise_high"]]
        )
        assert dot.get_xdata()[0] == pytest.approx(sweeps[name], abs=0.02)
        assert (dot.get_markerfacecolor() == "white") == (name == "alike")
    title = "hand: 1 of 3 swept defenses is shown to beat noise, 1 to be worse (FVU)"
    assert OVER_NOISE.draw(made).get_suptitle() == title
    for each in made.rows:
        each.seeds = each.seeds[:1]
    assert not OVER_NOISE.applies(board(*made.rows))  # of one training nobody can tell


def test_a_board_without_a_complete_row_has_no_sweeps():
    missing = sure("noise", 1, 0.9, 0.03)
    missing.missing = 1
    made = board(missing)
    assert made.sweeps.empty
    assert over_sweeps(made).empty


def test_nobody_is_better_than_noise_by_attacks_that_had_not_converged():
    """Neither a row nor a sweep; collapsed rows do not count."""
    noise = [sure("noise", s, a, e) for s, a, e in ((1, 0.9, 0.03), (2, 0.7, 0.05))]
    names = ("better", "alike", "worse")
    rows = [
        independent(name, s, n + 3 * s, 0.1 * e + shift, accuracy=a)
        for n, (name, shift) in enumerate(zip(names, (0.2, 0.0, -0.2), strict=True))
        for s, a, e in ((1, 0.9, 3), (2, 0.7, 5))
    ]
    settled = board(*noise, *rows)
    assert list(over_sweeps(settled).query("better").defense) == ["better"]
    assert "at once: better 1, better 2." in verdict(settled)[0]
    assert not [told for told in verdict(settled) if "had not converged" in told]

    first = rows[0]
    first.flags, first.least_accuracy = ["not_converged"], 0.1
    assert all_settled(board(*noise, *rows), "better")
    first.least_accuracy = first.accuracy.mean
    made = board(*noise, *rows)
    table = over_sweeps(made).set_index("defense")
    assert not table.better.any()
    assert list(table.index[table.open]) == ["better"]
    first_line, *_, last = verdict(made)
    assert "at once: better 2." in first_line
    assert last == (
        "Above noise, too, and not shown to be better, since their strongest attack had not "
        "converged: better 1, better."
    )
    canvas = OVER_NOISE.draw(made)
    assert (
        canvas.get_suptitle()
        == "hand: none of 3 swept defenses is shown to beat noise, 1 to be worse (FVU)"
    )
    assert canvas.axes[0].lines[2].get_markerfacecolor() == "white"
