"""What a second run in a folder says of the first."""

from dataclasses import replace

import pytest

from smashbench.bench.store.saved_suite import left_out_of, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests.forge import attack_trial, keep_attack, keep_victim, victim_trial


@pytest.fixture
def first(tmp_path):
    """Two rows and two attacks on each, all finished."""
    victims = [victim_trial("noise", strength) for strength in (0.1, 0.2)]
    attacks = [attack_trial(victim, name) for victim in victims for name in ("mean", "knn")]
    suite = Suite("mine", "", tuple(victims), tuple(attacks), "smashbench run mine --set a=1")
    save_suite(suite, tmp_path)
    for trial in victims:
        keep_victim(Store(tmp_path), trial)
    for trial in attacks:
        keep_attack(Store(tmp_path), trial)
    return suite


def test_a_run_of_the_same_or_of_more_leaves_nothing_out(first, tmp_path):
    assert left_out_of(first, tmp_path) == ""
    more = replace(first, attacks=(*first.attacks, attack_trial(first.victims[0], "gmm")))
    assert left_out_of(more, tmp_path) == ""
    assert left_out_of(first, tmp_path / "none") == ""


def test_finished_trials_that_leave_the_tables_are_named(first, tmp_path):
    other = tuple(attack_trial(victim, "gmm") for victim in first.victims)
    text = left_out_of(replace(first, attacks=other), tmp_path)
    assert text.startswith(f"4 finished trials in {tmp_path} are not of this run")
    assert "(mean, knn)" in text
    assert text.endswith("of: smashbench run mine --set a=1")
    fewer = replace(first, victims=first.victims[:1], attacks=first.attacks[:2])
    assert "3 finished trials" in (text := left_out_of(fewer, tmp_path))
    assert "(noise 0.2)" in text


def test_of_trials_that_never_finished_nothing_is_said(first, tmp_path):
    for trial in first.attacks:
        Store(tmp_path).record_path(trial.key).unlink()
    assert left_out_of(replace(first, attacks=()), tmp_path) == ""
