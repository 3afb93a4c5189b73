"""Every training and every fit draws from a seed of its own."""

from unittest.mock import patch

import pytest
import torch

from smashbench.bench.experiment.make_victim import start
from smashbench.bench.run import perform
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml
from tests.inside import cells_inside
from tests.rescored import TINY, again

SEEDS = (
    *(change for change in TINY if not change.startswith(("seeds", "defenses", "attacks"))),
    "seeds=[0,1]",
    "attack_seeds=2",
    "defenses={none={}}",
    "attacks={decoder={width=8,blocks=1,hidden=[0],cycle=40,max_steps=40}}",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of two trainings and two fits on each: its suite, and the scores by seed."""
    suite, folder = toml.load("smoke", SEEDS), tmp_path_factory.mktemp("seeds")
    with cells_inside(), patch.object(perform, "start", wraps=start) as begun:
        again(suite, folder)
    assert [call.args for call in begun.call_args_list] == [(0,), (1,)]  # of weights
    store = Store(folder)
    errors = {}
    for trial in suite.attacks:
        record = store.attack(trial.key)
        errors[trial.victim.seed, trial.config.seed] = store.arrays(record, "scores")["mse"]
    return suite, store, errors


def test_trainings_of_two_seeds_are_two(made):
    suite, store, errors = made
    first, second = (store.victim(trial.key) for trial in suite.victims)
    assert first.checkpoint_sha256 != second.checkpoint_sha256
    assert first.history != second.history
    assert (errors[0, 0] != errors[1, 0]).any()


def test_fits_of_two_attack_seeds_are_two(made):
    _, _, errors = made
    assert set(errors) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    for seed in (0, 1):
        assert (errors[seed, 0] != errors[seed, 1]).any()


def test_a_second_fit_leaves_the_first_as_it_was(made, tmp_path):
    """It is the same trial, with the same scores, where an attack has one fit."""
    suite, _, errors = made
    alone = toml.load("smoke", [*SEEDS, "seeds=[0]", "attack_seeds=1"])
    assert {trial.key for trial in alone.trials} < {trial.key for trial in suite.trials}
    with cells_inside():
        again(alone, tmp_path)
    store = Store(tmp_path)
    (trial,) = alone.attacks
    found = store.arrays(store.attack(trial.key), "scores")["mse"]
    assert (found == errors[0, 0]).all()


def test_a_seed_decides_what_is_drawn():
    drawn = []
    for seed in (0, 1, 0):
        start(seed)
        drawn.append(torch.rand(4).tolist())
    assert drawn[0] == drawn[2] != drawn[1]
