"""The cards of a page: what to take at a loss of accuracy, and why nothing is compared there."""

import numpy as np
import pytest

from smashbench.bench.report.flags import raise_flags
from smashbench.bench.report.losses import at_losses, to_take
from smashbench.bench.report.statistics import DRAWS, RESAMPLES
from smashbench.bench.report.text import estimate
from smashbench.bench.report.verdict import answers, summary, without_loss
from tests.test_frontier import board
from tests.test_losses import NONE_ROW, control_and_noise, sure


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
    assert answers(made)[0].details[0].startswith("no row to take: attacks on all that are")
    few = answers(board(sure(*NONE_ROW), sure("noise", 0.8, 0.86, 0.06, 0.8)))
    assert few[1].headline == "nothing but noise is that accurate"
    assert few[1].details[0] == "no row to take: none is this accurate as it was trained"
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


def test_a_defense_of_other_seeds_than_noise_is_said_to_be_one():
    """Folders that were merged: it was trained once more. Noise goes on from undefended models that
    were."""
    near, far = (sure("cem", n, a, e) for n, a, e in ((1, 0.93, 0.03), (9, 0.88, 0.06)))
    made = board(*control_and_noise(), near, far)
    near.seeds = far.seeds = [0, 1, 2]
    raise_flags(made)
    assert "other_seeds" in near.flags
    assert "beyond_noise" not in near.flags
    two = answers(made)[1]
    assert two.headline == "not compared with noise"
    assert two.details[-1] == "all others were trained from other seeds than noise"
    others = [sure("else", n, a, 0.02) for n, a in ((1, 0.93), (9, 0.88))]
    made = board(*control_and_noise(), near, far, *others)
    assert "cem was trained from other seeds than noise: not compared" in answers(made)[1].details
    near.seeds, far.seeds = [0, 1], [0, 1]
    made = board(*control_and_noise(), near, far)
    made.rows[0].seeds = [0, 1, 2]
    assert made.noise_beside(near) == made.rows[:3]
    assert answers(made)[1].headline != "not compared with noise"


def test_an_undefended_row_that_lacks_a_trial_is_not_said_to_be_missing():
    made = board(*control_and_noise(), sure("cem", 1, 0.93, 0.03))
    made.rows[0].missing = 1
    assert answers(made) == []
    assert without_loss(made).startswith("There is no complete undefended row: one of its trials")
    assert without_loss(made) in summary(made)
    del made.rows[0]
    assert without_loss(made).startswith("There is no undefended row, so that")


def test_a_row_that_loses_exactly_so_much_is_accurate_enough():
    """Of 1,000 images in three trainings: the difference of the doubles is a little more."""
    undefended, defended = 0.5006666666666667, 0.45066666666666666
    assert defended < undefended - 0.05
    rows = [sure("none", None, undefended, 0.01), sure("cem", 1, defended, 0.04)]
    _, _, five = at_losses(board(*rows))
    assert [each.defense for each in five.defenses] == ["cem", "none"]
    assert to_take(board(*rows), 0.05) is rows[1]


def test_what_is_worse_than_the_mean_image_protects_no_better_than_that():
    """An attacker may always answer it. Without it among the attacks FVU exceeds 1."""
    noise = [sure("noise", s, a, e, s) for s, a, e in ((0.1, 0.94, 0.095), (0.8, 0.86, 0.1))]
    made = board(sure(*NONE_ROW), *noise, sure("cem", 1, 0.93, 0.16, jitter=0.0001))
    two = at_losses(made)[1]
    assert two.best.fvu == (1, 1, 1)
    assert two.best.over_noise.mean == pytest.approx(1 - (0.95 + 0.05 / 8))
