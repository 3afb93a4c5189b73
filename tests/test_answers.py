"""The cards of a page: what to take at a loss of accuracy, and why nothing is compared there."""

import numpy as np

from smashbench.bench.report.losses import at_losses, to_take
from smashbench.bench.report.statistics import DRAWS, RESAMPLES
from smashbench.bench.report.text import estimate
from smashbench.bench.report.verdict import answers
from tests.test_frontier import board
from tests.test_losses import control_and_noise, sure


def test_the_row_to_take_is_one_as_trained_whose_attacks_had_converged():
    """Between .94 and .89 the defense leaves up to .6, and no row of it less accurate than .93
    counts at two points."""
    clear, open_ = sure("cem", 1, 0.93, 0.03), sure("cem", 2, 0.93, 0.05)
    open_.flags.append("not_converged")
    made = board(*control_and_noise(), clear, open_, sure("cem", 9, 0.88, 0.06))
    assert to_take(made, 0.02) is clear
    assert to_take(made, 0.07) is made.rows[-1]
    assert to_take(made, 0.005) is None
    _, two, _ = answers(made)
    left = estimate(clear.worst("fvu"), 2)
    assert two.details[0] == f"the row to take: cem 1, FVU {left} (accuracy .930)"
    for each in made.rows:
        each.flags.append("not_converged")
    assert answers(made)[1].details[0].startswith("no row to take: attacks on all that are")
    assert to_take(board(sure("cem", 1, 0.93, 0.03)), 0.05) is None


def test_noise_that_few_draws_cover_is_not_said_to_be_swept_too_short():
    """It was swept to .86, but one draw of five asks for .83."""
    made = board(*control_and_noise(), sure("cem", 1, 0.945, 0.03), sure("cem", 9, 0.87, 0.05))
    for each in made.rows[:2]:
        each.draws["accuracy"][: RESAMPLES // 5] = 0.85
    one = answers(made)[1]
    assert one.headline == "not compared with noise"
    assert one.details[-1] == "noise covers this accuracy in fewer than nine of ten draws"
    assert at_losses(made)[1].noise.over_noise is None


def test_an_answer_says_in_how_many_draws_the_best_is_accurate_enough():
    doubtful = sure("cem", 1, 0.931, 0.09, jitter=0.0001)
    doubtful.draws["accuracy"] = np.where(np.arange(DRAWS) % 3, 0.931, 0.929)
    _, two, _ = answers(board(*control_and_noise(), doubtful))
    assert "it is that accurate in 67 % of the draws" in two.details
    sure_ = sure("cem", 1, 0.931, 0.09, jitter=0.0001)
    _, two, _ = answers(board(*control_and_noise(), sure_))
    assert not any("of the draws" in each for each in two.details)
