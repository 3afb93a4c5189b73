"""Answers at small losses of accuracy: who is shown to beat noise, and who is not told apart."""

import numpy as np
import pytest
from scipy.stats import norm

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.comparisons import against_noise
from smashbench.bench.report.flags import raise_flags
from smashbench.bench.report.losses import at_losses, within
from smashbench.bench.report.statistics import DRAWS, PARTS, RESAMPLES, Estimate
from smashbench.bench.report.verdict import NONE, answers, headline, summary, verdict
from smashbench.bench.report.view import ALONE, panels, view
from tests.test_frontier import board, row


def sure(defense, strength, accuracy, error, noise=0.0, jitter=0.0):
    """A row whose accuracy is known exactly."""
    made = row(defense, strength, accuracy, error, noise, jitter)
    made.draws["accuracy"] = np.full(DRAWS, accuracy)
    return made


NONE_ROW = ("none", None, 0.95, 0.01)
NOISE = (("noise", 0.1, 0.94, 0.02, 0.1), ("noise", 0.8, 0.86, 0.06, 0.8))


def control_and_noise():
    return [sure(*NONE_ROW), *(sure(*each) for each in NOISE)]


def test_values_are_those_of_the_frontiers():
    # noise has FVU .2 + .4 (.94 - a) / .08: .2, .25, .4 at losses of 1, 2, 5 points
    made = board(*control_and_noise(), sure("cem", 1, 0.93, 0.045), sure("cem", 9, 0.89, 0.055))
    one, two, five = at_losses(made)
    assert [each.defense for each in one.defenses] == ["noise", "none"]
    assert [each.defense for each in two.defenses] == ["cem", "noise", "none"]
    assert two.best.fvu.mean == pytest.approx(0.45)
    assert two.best.over_noise.mean == pytest.approx(0.2)
    assert two.noise.fvu.mean == pytest.approx(0.25)
    assert five.best.over_noise.mean == pytest.approx(0.45 + 0.1 * 0.75 - 0.4)
    assert five.noise.over_noise == (0, 0, 0)


def test_who_is_shown_to_beat_noise_and_who_is_not():
    clear = [sure("cem", 1, 0.93, 0.045, jitter=0.0001), sure("cem", 9, 0.89, 0.06, jitter=0.0001)]
    made = board(*control_and_noise(), *clear)
    _, two, _ = at_losses(made)
    assert [each.defense for each in two.winners] == ["cem"]
    assert two.not_told_apart(two.best) == []
    assert headline(made) == "hand: cem beats noise (FVU)"
    assert answers(made)[0].headline == "nothing but noise is that accurate"
    assert answers(made)[1].headline == "cem beats noise"
    unsure = [sure("cem", 1, 0.93, 0.028, jitter=0.05), sure("cem", 9, 0.89, 0.04, jitter=0.05)]
    made = board(*control_and_noise(), *unsure)
    answer = answers(made)[1]
    assert answer.headline == NONE
    assert any("not told apart from cem: noise" in detail for detail in answer.details)
    assert headline(made) == "hand: none of 2 rows is shown to beat noise (FVU)"


def test_one_training_shows_nothing_about_another():
    """The same rows, trained once: no interval knows what another training would do."""
    clear = [sure("cem", 1, 0.93, 0.045, jitter=0.0001), sure("cem", 9, 0.89, 0.06, jitter=0.0001)]
    made = board(*control_and_noise(), *clear)
    for each in made.rows:
        each.seeds = [0]
    _, two, _ = at_losses(made)
    assert two.best.over_noise.low > 0
    assert two.winners == []
    assert answers(made)[1].headline == NONE
    assert headline(made) == "hand: none of 2 rows is shown to beat noise (FVU)"


def test_attacks_that_had_not_converged_show_no_protection():
    clear = [sure("cem", 1, 0.93, 0.045, jitter=0.0001), sure("cem", 9, 0.89, 0.06, jitter=0.0001)]
    clear[1].flags = ["not_converged"]
    _, two, _ = at_losses(board(*control_and_noise(), *clear))
    assert two.best.over_noise.low > 0
    assert two.winners == []


def test_a_sweep_that_ends_early_is_not_worse_than_noise_further_on():
    """At five points lost noise leaves .4: two defenses that lose two points at most are not
    compared there, but for the one that leaves .6 even so."""
    short = sure("short", 1, 0.93, 0.03, jitter=0.0001)
    ahead = sure("ahead", 1, 0.93, 0.06, jitter=0.0001)
    made = board(*control_and_noise(), short, ahead)
    five = {each.defense: each for each in at_losses(made)[2].defenses}
    assert five["short"].over_noise is None
    assert five["short"].fvu.mean == pytest.approx(0.3)
    assert five["ahead"].over_noise.mean == pytest.approx(0.2)
    assert [each.defense for each in at_losses(made)[2].winners] == ["ahead"]
    _, _, told = answers(board(*control_and_noise(), sure("short", 1, 0.93, 0.055, jitter=0.05)))
    assert told.headline == "not compared with noise"
    assert told.details[-1] == "no other defense was swept to this accuracy"


def test_what_most_draws_lack_is_not_compared():
    """Noise was swept as far as the row in one of three draws."""
    made = [*control_and_noise(), sure("cem", 1, 0.86, 0.05)]
    assert against_noise(board(*made))["cem", 1]["fvu_over_noise"]
    made[2].draws["accuracy"] = np.where(np.arange(DRAWS) % 3, 0.861, 0.859)
    again = board(*made)
    assert against_noise(again)["cem", 1]["fvu_over_noise"] is None
    raise_flags(again)
    assert ["beyond_noise" in each.flags for each in made] == [False, False, False, True]


@pytest.mark.parametrize(("enough", "wins"), [(2 / 3, False), (0.97, False), (0.98, True)])
def test_what_may_not_be_accurate_enough_is_not_said_to_beat_noise(enough, wins):
    """Its only strength is below the accuracy asked for in more than 2.5 % of the resamples."""
    doubtful = sure("cem", 1, 0.931, 0.09, jitter=0.0001)
    doubtful.draws["accuracy"] = np.where(np.arange(DRAWS) < enough * RESAMPLES, 0.931, 0.929)
    _, two, _ = at_losses(board(*control_and_noise(), doubtful))
    assert two.best.defense == "cem"
    assert two.best.over_noise.low > 0
    assert two.best.reached == pytest.approx(enough, abs=0.001)
    assert bool(two.winners) == wins


def test_resamples_in_which_it_is_not_accurate_enough_count_too():
    """It leaves .9 where it is accurate enough and .3 elsewhere, in four of ten resamples, where it
    is compared with noise at its own accuracy."""
    doubtful = sure("cem", 1, 0.931, 0.09)
    good = np.arange(DRAWS) % 10 < 6
    doubtful.draws = {
        "accuracy": np.where(good, 0.931, 0.921),
        "fvu": np.where(good, 0.9, 0.3),
        "mse": np.where(good, 0.09, 0.03),
    }
    noise = control_and_noise()
    for each in noise:
        each.draws["fvu"] = np.full(DRAWS, each.worst("fvu").mean)
    made = board(*noise, doubtful)
    (cem,) = [each for each in at_losses(made)[1].defenses if each.defense == "cem"]
    assert cem.fvu.low < 0.3
    assert made.sweeps.set_index("defense").reached_at_2_points["cem"] == pytest.approx(0.6)
    assert cem.over_noise is None  # it may be worse


def test_rows_of_other_trainings_are_no_part_of_a_sweep():
    """Of a strength that was trained once, nobody knows what another training would do."""
    twice, once = sure("cem", 1, 0.935, 0.02, jitter=0.0001), sure("cem", 9, 0.93, 0.09)
    once.seeds = [0]
    made = board(*control_and_noise(), twice, once)
    two = at_losses(made)[1]
    (cem,) = [each for each in two.defenses if each.defense == "cem"]
    assert cem.fvu.mean == pytest.approx(0.2)
    assert cem.trainings == len(twice.seeds)
    assert two.winners == []
    assert made.swept("cem") == [twice]


def test_where_noise_was_not_swept_nothing_is_compared():
    swept = [sure("cem", 1, 0.945, 0.03), sure("cem", 9, 0.92, 0.05)]
    made = board(sure(*NONE_ROW), sure("noise", 0.1, 0.945, 0.02, 0.1), *swept)
    one = at_losses(made)[0]
    assert one.best.over_noise is None
    answer = answers(made)[0]
    assert answer.headline == "not compared with noise"
    assert answer.details[-1] == "noise was not swept to this accuracy"
    assert one.noise.over_noise is None


def test_noise_begins_at_the_undefended_row():
    """.1 at .95 and .2 at .935: at .94, a point lost, two thirds of the way."""
    made = board(sure(*NONE_ROW), sure("noise", 0.1, 0.935, 0.02, 0.1), sure("cem", 1, 0.94, 0.03))
    one = at_losses(made)[0]
    assert one.noise.fvu.mean == pytest.approx(0.1 + 0.1 * 2 / 3)
    assert one.best.over_noise.mean == pytest.approx(0.3 - 0.1 - 0.1 * 2 / 3)
    assert against_noise(made)["cem", 1]["fvu_over_noise"].mean == pytest.approx(0.4 / 3)
    assert against_noise(made)["none", None]["fvu_over_noise"] is None
    shown, (none, noise, cem) = view(made, METRICS["fvu"]), made.rows
    assert shown.line([noise]) == [none, noise]
    assert shown.line([none]) == [none]
    assert shown.line([cem]) == [cem]


def test_without_an_undefended_row_there_is_no_answer():
    assert at_losses(board(sure(*NOISE[0]))) == []
    assert answers(board(sure(*NOISE[0]))) == []


def test_the_summary_has_five_lines_and_says_what_was_done():
    lines = summary(board(*control_and_noise(), sure("cem", 1, 0.93, 0.03)))
    assert len(lines) == 5
    assert lines[0].startswith("hand: 4 rows of 3 defenses, 2 seeds, 1 attack; undefended: ")
    assert lines[1].startswith("at most 1 point lost (accuracy .940 or more): nothing but noise")
    assert lines[4].startswith("One row is compared with noise at equal accuracy (FVU). ")


def test_of_each_defense_the_row_that_protects_most_within_a_loss():
    made = board(*control_and_noise(), sure("cem", 1, 0.93, 0.03), sure("cem", 9, 0.89, 0.06))
    assert {n: r.strength for n, r in within(made, 0.02).items()} == {
        "none": None,
        "noise": 0.1,
        "cem": 1,
    }
    assert within(made, 0.065)["cem"].strength == 9


def test_many_defenses_have_a_panel_for_each_group():
    few = control_and_noise()
    assert [panel.title for panel in panels(board(*few))] == [""]
    many = []
    for number in range(ALONE):
        more = sure(f"cem_{number}", 1, 0.93, 0.03)
        more.group = "CEM" if number else "sparsity"
        many.append(more)
    found = {panel.title: panel.defenses for panel in panels(board(*few, *many))}
    assert found["sparsity"] == ["none", "noise", "cem_0"]
    assert found["CEM"] == ["none", "noise", *(f"cem_{n}" for n in range(1, ALONE))]
    for each in many:
        each.role = "noise"  # many labels of noise, and no defense, are one panel
    assert [len(panel.defenses) for panel in panels(board(*few, *many))] == [ALONE + 2]


def test_who_beats_noise_over_a_whole_sweep_alone_is_said():
    """Two rows that are each too uncertain, in opposite ways, and surely better in the mean."""
    noise = [
        row("noise", s, a, e, s) for s, a, e in ((1, 0.9, 0.02), (2, 0.8, 0.04), (3, 0.7, 0.06))
    ]
    sweep = [row("cem", 1, 0.85, 0.04, jitter=0.02), row("cem", 2, 0.75, 0.06, jitter=-0.02)]
    made = board(*noise, *sweep)
    found = [
        each["fvu_over_noise_joint"] for key, each in against_noise(made).items() if key[0] == "cem"
    ]
    assert all(each.low < 0 < each.mean for each in found)
    assert headline(made) == "hand: cem beats noise over its sweep (FVU)"
    assert (
        verdict(made)[-1] == "Shown to be better over whole sweeps, in all defenses at once: cem."
    )


def independent(name, strength, n, fvu, spread=0.05, accuracy=0.9):
    """A row whose draws have nothing to do with those of others; images alone matter."""
    made = sure(name, strength, accuracy, 0.1 * fvu)
    own = spread * np.random.default_rng(n).normal(size=DRAWS)
    own[RESAMPLES:-PARTS] = 0
    made.draws["fvu"] = fvu + own
    return made


def flat_noise():
    """Noise that leaves as much at either level, in every draw."""
    noise = [sure("noise", s, a, e, s) for s, a, e in ((0.1, 0.94, 0.02), (0.8, 0.86, 0.02))]
    for each in noise:
        each.draws["fvu"] = np.full(DRAWS, 0.2)
    return noise


def test_no_interval_of_privacy_is_below_nothing():
    cem = sure("cem", 1, 0.93, 0.001, jitter=0.02)
    two = {each.defense: each for each in at_losses(board(*control_and_noise(), cem))[1].defenses}
    assert two["cem"].fvu.mean == pytest.approx(0.01)
    assert two["cem"].fvu.low == 0


def test_what_was_not_swept_so_far_is_compared_only_if_shown_to_be_better():
    short = sure("short", 1, 0.93, 0.045, jitter=0.05)
    five = {e.defense: e for e in at_losses(board(*control_and_noise(), short))[2].defenses}
    assert five["short"].fvu.mean == pytest.approx(0.45)
    assert five["short"].over_noise is None


def test_a_sweep_is_as_long_as_its_least_accurate_strength():
    long = [sure("cem", 1, 0.93, 0.015), sure("cem", 9, 0.87, 0.02)]
    five = {e.defense: e for e in at_losses(board(*control_and_noise(), *long))[2].defenses}
    assert five["cem"].least == pytest.approx(0.87)
    assert five["cem"].over_noise.high < 0  # worse than noise, and said to be


def test_losses_are_one_family():
    kept, better = {0.945: 1, 0.935: 2, 0.905: 3}, []
    for accuracy, n in kept.items():
        better.append(independent("cem", n, n, 0.1 * n + 0.3))
        better[-1].draws["accuracy"] = np.full(DRAWS, accuracy)
        better[-1].accuracy = Estimate(accuracy, accuracy, accuracy)
    noise = [sure("noise", s, a, e, s) for s, a, e in ((0.1, 0.948, 0.02), (0.8, 0.86, 0.02))]
    for each in noise:
        each.draws["fvu"] = np.full(DRAWS, 0.2)
    none = sure(*NONE_ROW)
    none.draws["fvu"] = np.full(DRAWS, 0.1)
    found = [
        e
        for loss in at_losses(board(none, *noise, *better))
        for e in loss.defenses
        if e.defense == "cem"
    ]
    wide = norm.ppf(1 - (1 - 0.95 ** (1 / 3)) / 2) / norm.ppf(0.975)
    assert len(found) == 3
    for each in found:
        single = each.fvu.high - each.fvu.low
        assert each.over_noise.high - each.over_noise.low == pytest.approx(wide * single, rel=0.05)
