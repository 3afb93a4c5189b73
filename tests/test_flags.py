"""What raises a flag, and what does not."""

from dataclasses import replace

import pytest

from smashbench.bench.experiment.results import Bound
from smashbench.bench.report.flags import raise_flags
from smashbench.bench.report.rows import board_of
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests.forge import attack_trial, keep_attack, keep_victim, victim_trial
from tests.test_frontier import board, row
from tests.test_rows import world


def flagged(made, *others):
    made_board = board(made, *others)
    raise_flags(made_board)
    return made.flags


def test_the_strongest_trained_attack_decides_whether_it_converged(tmp_path):
    made = world(tmp_path, {"gmm": (0.01, 0.5), "decoder": (0.02, 0.5)}, converged=False)
    made.rows[0].attacks["gmm"].converged = True  # it is the worst case
    raise_flags(made)
    assert "not_converged" in made.rows[0].flags


def test_a_bound_is_violated_by_a_whole_interval():
    made = row("cem", 1, 0.9, 0.02)
    made.attacks["gmm"].estimates["mse"] = Estimate(0.02, 0.015, 0.03)
    made.bound = 0.025
    assert "bound_violated" not in flagged(made)
    made.bound = 0.031
    assert "bound_violated" in flagged(made)


def test_one_collapsed_seed_is_enough():
    made = row("cem", 1, 0.6, 0.02)
    made.least_accuracy = 0.2
    assert "utility_collapse" in flagged(made)


def test_near_chance_is_a_share_of_the_way_from_it():
    for chance, least, collapsed in (
        (0.1, 0.27, True),
        (0.1, 0.29, False),
        (0.5, 0.59, True),
        (0.5, 0.65, False),
    ):
        made = row("cem", 1, 0.9, 0.02)
        made.chance, made.least_accuracy = chance, least
        assert ("utility_collapse" in flagged(made)) == collapsed


def test_an_incomplete_row_is_not_said_to_have_fewer_attacks(tmp_path):
    made = world(tmp_path, {"gmm": (0.02, 0.5), "decoder": (0.01, 0.6)}, lost={("decoder", 1)})
    (part,) = made.rows
    whole = row("cem", 1, 0.9, 0.01)
    whole.attacks = {"gmm": whole.attacks["gmm"], "decoder": whole.attacks["gmm"]}
    assert flagged(part, whole).count("incomplete") == 1
    assert "fewer_attacks" not in part.flags


def test_every_seed_needs_a_control():
    control, made = row("none", None, 0.95, 0.01), row("cem", 1, 0.9, 0.02)
    control.seeds, control.broken = [0], {0: 0.1}
    assert "no_control" in flagged(made, control)
    control.broken = {0: 0.1, 1: 0.1}
    assert "no_control" not in flagged(made, control)


def test_repeated_releases_do_not_make_an_attack_succeed(tmp_path):
    made = world(tmp_path, {"decoder": (0.099, 0.1), "averaging": (0.01, 0.9)})
    assert "attack_failed" in made.rows[0].flags


def test_nor_do_they_break_a_control(tmp_path):
    made = world(tmp_path, {"decoder": (0.08, 0.5), "averaging": (0.01, 0.9)}, defense="none")
    assert made.rows[0].broken == {0: pytest.approx(0.8), 1: pytest.approx(0.8)}
    assert "control_failed" in made.rows[0].flags


def test_a_row_is_of_all_its_seeds(tmp_path):
    """What is not alike on two victims."""
    store, victims, trials = Store(tmp_path), [], []
    for seed, accuracy, bound, converged, error in (
        (0, 0.9, 0.01, True, 0.02),
        (1, 0.2, 0.03, False, 0.2),
    ):
        victims.append(victim := victim_trial("noise", seed=seed))
        keep_victim(
            store, victim, accuracy, bound=Bound(mse=bound, prior=1.0), optimum={"mse": 2 * bound}
        )
        trials.append(trial := attack_trial(victim, "decoder"))
        keep_attack(store, trial, error, 0.5, converged=converged)
    suite = Suite("hand", "", tuple(victims), tuple(trials))
    (made,) = board_of(suite, store).rows
    assert made.bound == pytest.approx(0.02)
    assert made.optimum == pytest.approx(0.04)
    assert made.least_accuracy == pytest.approx(0.2)
    assert "utility_collapse" in made.flags
    attack = made.attacks["decoder"]
    assert not attack.converged  # on every victim
    assert not attack.failed  # on one of two
    for key in (victims[1].key, trials[1].key):
        (old,) = board_of(replace(suite, of_other_code=frozenset({key})), store).rows
        assert old.of_other_code == 1
        assert "outdated" in old.flags
