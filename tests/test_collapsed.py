"""Rows near chance: no comparison leans on them."""

import pytest

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.comparisons import against_noise
from smashbench.bench.report.flags import raise_flags
from smashbench.bench.report.losses import at_losses
from smashbench.bench.report.view import view
from tests.test_frontier import board
from tests.test_losses import control_and_noise, sure


def test_no_straight_line_leads_to_noise_that_has_collapsed():
    """Its row at .2 says nothing of the noise that would have an accuracy of .5."""
    collapsed = sure("noise", 9, 0.2, 0.09, 9)
    collapsed.least_accuracy = 0.15
    between = sure("cem", 1, 0.5, 0.07)
    made = board(*control_and_noise(), collapsed, between)
    assert against_noise(made)["cem", 1]["fvu_over_noise"] is None
    raise_flags(made)
    assert "beyond_noise" in between.flags
    assert "utility_collapse" in collapsed.flags


def test_no_line_leads_to_a_collapsed_row():
    """At one point lost .94 is asked for, which lies between a row of .95 and one near chance."""
    works, collapsed = sure("cem", 1, 0.95, 0.015), sure("cem", 9, 0.15, 0.09)
    collapsed.least_accuracy = 0.15
    one = at_losses(board(*control_and_noise(), works, collapsed))[0]
    (cem,) = [each for each in one.defenses if each.defense == "cem"]
    assert cem.fvu.mean == pytest.approx(0.15)
    assert cem.least == 0.95
    alone = at_losses(board(*control_and_noise(), collapsed))
    assert all("cem" not in [each.defense for each in loss.defenses] for loss in alone)


def test_a_collapsed_row_stays_beyond_the_axis():
    collapsed = sure("cem", 9, 0.15, 0.09)
    collapsed.least_accuracy = 0.15
    seen = view(board(*control_and_noise(), collapsed), METRICS["fvu"])
    assert [each.label for each in seen.beyond] == ["cem 9"]
    assert seen.x[0] > 0.8
    assert seen.y[1] < 0.8


def test_noise_does_not_lead_to_a_collapsed_row_either():
    none, weak, _ = control_and_noise()
    collapsed = sure("noise", 9, 0.15, 0.09, 9.0)
    collapsed.least_accuracy = 0.15
    five = {
        e.defense: e
        for e in at_losses(board(none, weak, collapsed, sure("cem", 1, 0.9, 0.05)))[2].defenses
    }
    assert five["noise"].fvu.mean == pytest.approx(0.2)
    assert five["cem"].over_noise is None
