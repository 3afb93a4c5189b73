"""What a row hands on to comparisons: groups of images count once, and draws know its role."""

import numpy as np
import pytest

from smashbench.bench.report.rows import board_of
from smashbench.bench.report.statistics import PARTS, RESAMPLES
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests.forge import IMAGES, attack_trial, keep_attack, keep_victim, victim_trial


def world(folder, errors, *, groups=None):
    """A board of one attack, given the errors of its images by (defense, seed)."""
    store, victims, attacks = Store(folder), [], []
    for (defense, seed), mse in errors.items():
        victim = victim_trial(defense, seed=seed)
        attack = attack_trial(victim, "decoder")
        keep_victim(store, victim, groups=groups)
        keep_attack(store, attack, mse)
        victims.append(victim)
        attacks.append(attack)
    return board_of(Suite("hand", "", tuple(victims), tuple(attacks)), store)


@pytest.mark.parametrize(
    ("groups", "half", "freedom"),
    [
        # means .01 and .03 of two groups: t of 1 degree of freedom, 12.706, times .01
        ([0] * 5 + [1] * 5, 0.12706, 1),
        # ten images: t of 9, 2.2622, times the standard error .0105409 / sqrt(10)
        (None, 0.0075406, 9),
    ],
)
def test_images_of_one_group_count_once(tmp_path, groups, half, freedom):
    board = world(tmp_path, {("none", 0): [0.01] * 5 + [0.03] * 5}, groups=groups)
    (row,) = board.rows
    found = row.worst("mse")
    assert found.mean == pytest.approx(0.02)
    assert found.high == pytest.approx(0.02 + half, rel=1e-4)
    assert row.freedom == (0, freedom)


def test_trainings_of_control_noise_and_defenses_are_drawn_apart(tmp_path):
    """Draws end with parts: of the trainings of each role, then of images."""
    errors = {
        (defense, seed): [0.02 + 0.02 * seed] * IMAGES
        for defense in ("none", "noise", "kmeans_cem")
        for seed in (0, 1)
    }
    rows = world(tmp_path, errors).rows
    assert [row.role for row in rows] == ["control", "baseline", "defense"]
    for place, row in enumerate(rows):
        parts = row.draws["fvu"][RESAMPLES:].reshape(4, PARTS)
        assert (parts.std(1) > 1e-9).tolist() == [at == place for at in range(4)]
    draws = [row.draws["fvu"][:RESAMPLES] for row in rows]
    assert np.abs(np.corrcoef(draws)[np.triu_indices(3, 1)]).max() < 0.1
