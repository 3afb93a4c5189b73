"""Fits of an attack: equally many on all victims, and of these the best by the attacker's own
validation."""

from dataclasses import replace

import numpy as np
import pytest

from smashbench.bench.report.board import Board
from smashbench.bench.report.rows import board_of
from smashbench.bench.report.statistics import _parts, interval
from smashbench.bench.run.attempt import failure
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests.forge import attack_trial, keep_attack, keep_victim, victim_trial


def fits(folder, found: dict[tuple[str, int, int], tuple[float, float | None]]) -> Board:
    """Decoders on victims: defense, seed and attack seed to the error on test images, and on the
    attacker's own."""
    store, victims, trials = Store(folder), {}, []
    for (defense, seed, attack_seed), (error, own) in found.items():
        if (defense, seed) not in victims:
            victims[defense, seed] = victim_trial(defense, seed=seed)
            keep_victim(store, victims[defense, seed])
        trials.append(attack_trial(victims[defense, seed], "decoder", attack_seed))
        keep_attack(store, trials[-1], error, curve=[] if own is None else [9.0, own])
    return board_of(Suite("hand", "", tuple(victims.values()), tuple(trials)), store)


def test_of_several_fits_the_attackers_own_validation_chooses(tmp_path):
    """Not the test images: on the first victim the better fit is the one that looks worse there."""
    found = {
        ("noise", 0, 0): (0.02, 0.5),
        ("noise", 0, 1): (0.03, 0.4),
        ("noise", 1, 0): (0.01, 0.3),
        ("noise", 1, 1): (0.05, 0.6),
    }
    (row,) = fits(tmp_path / "known", found).rows
    assert row.worst("mse").mean == pytest.approx((0.03 + 0.01) / 2)
    assert row.attack_seeds == 2
    blind = {key: (error, None) for key, (error, _) in found.items()}
    (row,) = fits(tmp_path / "blind", blind).rows
    assert row.worst("mse").mean == pytest.approx((0.02 + 0.03 + 0.01 + 0.05) / 4)


def test_rows_that_are_compared_have_equally_many_fits(tmp_path):
    found = {("noise", 0, seed): (0.02, 0.5 - 0.1 * seed) for seed in range(3)}
    found[("noise", 0, 2)] = (0.01, 0.1)
    found |= {("none", 0, seed): (0.005, 0.5) for seed in range(2)}
    rows = {row.defense: row for row in fits(tmp_path, found).rows}
    assert rows["noise"].worst("mse").mean == pytest.approx(0.02)  # the third is not looked at
    assert [row.attack_seeds for row in rows.values()] == [2, 2]


def test_an_attack_that_did_not_fit_in_memory_leaves_other_fits_equally_many(tmp_path):
    found = {("noise", 0, seed): (0.02, 0.5 - 0.1 * seed) for seed in range(3)}
    made = fits(tmp_path, found | {("none", 0, 0): (0.005, 0.5)})
    large = [attack_trial(victim, "gmm") for victim in made.suite.victims]
    for trial in large:
        made.store.write(failure(trial, "too large", left_out=True))
    suite = replace(made.suite, attacks=(*made.suite.attacks, *large))
    rows = board_of(suite, made.store).rows
    assert [row.attack_seeds for row in rows] == [1, 1]
    assert [row.missing for row in rows] == [0, 0]


def test_victims_of_a_row_stand_in_the_order_of_their_seeds(tmp_path):
    """In that of a suite that names them otherwise, rows would not have the seeds of others."""
    found = {("noise", seed, 0): (0.01 * (1 + seed), 0.5) for seed in (2, 0, 1)}
    (row,) = fits(tmp_path, found).rows
    assert row.seeds == [0, 1, 2]
    alone = {key: found[key] for key in sorted(found)}
    (other,) = fits(tmp_path / "sorted", alone).rows
    assert np.array_equal(row.draws["fvu"], other.draws["fvu"])


def test_two_fits_on_one_victim_vary_as_two_and_accuracy_does_not_with_them(tmp_path):
    """By hand: (.10 + .13) / 2 over the floor of .1, and 12.71 standard errors of .15."""
    found = {("noise", 0, 0): (0.10, None), ("noise", 0, 1): (0.13, None)}
    (row,) = fits(tmp_path, found).rows
    assert row.freedom == (1, 9)
    estimate = interval(1.15, row.draws["fvu"], row.freedom)
    assert estimate.high - 1.15 == pytest.approx(12.71 * 0.15, rel=0.06)
    by_seed = _parts(row.draws["accuracy"])[1]
    assert np.ptp(by_seed) < 1e-12
