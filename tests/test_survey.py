"""What is to do, in which order, and how long it takes."""

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.run.attempt import failure
from smashbench.bench.run.estimates import Estimates, group_of
from smashbench.bench.run.selection import choose, selection
from smashbench.bench.run.survey import Standing, left_behind, survey
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml as suite
from tests.forge import HASH, attack_record, victim_record

ABSENT, DONE = Standing("missing"), Standing("done", 2.0)


@pytest.fixture(scope="module")
def smoke():
    return suite.load("smoke", ["seeds=[0,1]"])


def labels(trials) -> list[str]:
    return [trial.label for trial in trials]


def test_a_selection_brings_the_victims_it_needs(smoke):
    nothing = dict.fromkeys((t.key for t in smoke.trials), ABSENT)
    assert choose(smoke, nothing) == list(smoke.trials)
    only = ["attack=gmm", "defense=noise", "seed=1", "strength=0.3"]
    assert selection(smoke, ["strength=0.30"]) == selection(smoke, ["strength=0.3"])
    assert labels(choose(smoke, nothing, only=selection(smoke, only))) == [
        "noise 0.3, seed 1",
        "gmm on noise 0.3, seed 1",
    ]
    trained = nothing | {victim.key: DONE for victim in smoke.victims}
    assert labels(choose(smoke, trained, only=selection(smoke, only))) == [
        "gmm on noise 0.3, seed 1"
    ]
    either = ["attack=gmm", "attack=knn", "defense=none", "seed=0"]
    assert labels(choose(smoke, trained, only=selection(smoke, either))) == [
        "gmm on none, seed 0",
        "knn on none, seed 0",
    ]
    assert labels(choose(smoke, nothing, only=selection(smoke, ["defense=none", "seed=0"]))) == [
        "none, seed 0",
        *(f"{name} on none, seed 0" for name in ("mean", "class_mean", "gmm", "knn", "decoder")),
    ]


def test_what_is_only_measured_again_needs_no_victim(smoke):
    """Were the victim to be trained and to fail, a finished attack would be lost with it."""
    everything = {trial.key: DONE for trial in smoke.trials}
    attack = smoke.attacks[0]
    states = {attack.key: Standing("unscored"), attack.parent: ABSENT}
    assert choose(smoke, everything | states, only={"attack": {attack.attack.label}}) == [attack]


def test_what_failed_is_tried_again_also_where_it_was_left_out(smoke):
    """With its victim, where that has failed, too; and nothing that has not been run."""
    standings = {trial.key: DONE for trial in smoke.trials}
    failed, large, missing = smoke.attacks[0], smoke.attacks[1], smoke.attacks[-1]
    standings |= {failed.key: Standing("failed"), large.key: Standing("left_out")}
    standings[missing.key] = ABSENT
    assert choose(smoke, standings, failed=True) == [failed, large]
    assert choose(smoke, standings) == [failed, missing]
    standings[str(failed.parent)] = Standing("failed")
    assert choose(smoke, standings, failed=True)[0].key == failed.parent


def test_a_limit_counts_the_victims_and_never_leaves_an_attack_without(smoke):
    nothing = dict.fromkeys((t.key for t in smoke.trials), ABSENT)
    for limit in range(1, 8):
        chosen = choose(smoke, nothing, only=selection(smoke, ["attack=gmm"]), limit=limit)
        assert len(chosen) <= limit
        assert len(chosen) == limit
        keys = {trial.key for trial in chosen}
        assert all(trial.parent is None or trial.parent in keys for trial in chosen)
    assert len(choose(smoke, nothing, limit=5)) == 5


def test_only_what_failed(smoke):
    standings = dict.fromkeys((t.key for t in smoke.trials), DONE)
    bad, absent = smoke.attacks[3], smoke.attacks[4]
    standings |= {bad.key: Standing("failed", cause="x"), absent.key: ABSENT}
    assert choose(smoke, standings, failed=True) == [bad]
    assert choose(smoke, standings) == [bad, absent]


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("defense=nois", "unknown defense 'nois'; did you mean 'noise'"),
        ("attacks=gmm", "unknown field 'attacks'; did you mean 'attack'"),
        ("strength=0.35", r"unknown strength '0.35'; did you mean '0.3'"),
        ("gmm", "write field=value"),
    ],
)
def test_a_selection_of_nothing_there_is_is_an_error(smoke, only, message):
    with pytest.raises(BenchError, match=message):
        selection(smoke, [only])


def test_estimates_learn_by_label_then_by_kind(smoke):
    standings = dict.fromkeys((t.key for t in smoke.trials), ABSENT)
    estimates = Estimates(smoke.trials, standings)
    none, noise = smoke.victims[0], smoke.victims[2]
    mean, gmm = smoke.attacks[0], smoke.attacks[2]
    assert estimates.of(group_of(none)) is None
    assert estimates.total({group_of(none): 3}, 2) is None
    estimates.observe(none, 10)
    estimates.observe(none, 20)
    assert estimates.of(group_of(none)) == 15
    assert estimates.of(group_of(noise)) == 15  # as other defenses
    estimates.observe(noise, 33)
    assert estimates.of(group_of(noise)) == 33
    assert estimates.of(group_of(gmm)) is None
    estimates.observe(mean, 1)
    assert estimates.total({group_of(none): 4, group_of(mean): 10}, 2) == (4 * 15 + 10) / 2
    assert estimates.total({group_of(noise): 1, group_of(mean): 1}, 8) == 33  # no faster than one
    assert estimates.total({group_of(noise): 0}, 2) == 0


def test_longest_first_by_time_else_by_kind(smoke):
    standings = dict.fromkeys((t.key for t in smoke.trials), ABSENT)
    estimates = Estimates(smoke.trials, standings)
    victim, (mean, _, gmm, _, decoder) = smoke.victims[0], smoke.attacks[:5]
    order = sorted([mean, gmm, decoder, victim], key=estimates.rank)
    assert order == [decoder, victim, gmm, mean]
    for trial, seconds in ((mean, 9), (gmm, 100), (decoder, 0.1), (victim, 30)):
        estimates.observe(trial, seconds)
    order = sorted([mean, gmm, decoder, victim], key=estimates.rank)
    assert order == [gmm, victim, mean, decoder]


def test_the_standing_of_every_trial(smoke, tmp_path):
    """A victim and its attack, then other source, another victim, a failure, damage."""
    store, victim, attack = Store(tmp_path), smoke.victims[0], smoke.attacks[0]
    assert victim.key == attack.parent
    trained, attacked = victim_record(victim), attack_record(attack)
    store.write(trained)
    store.write(attacked)

    def states() -> tuple[Standing, Standing]:
        standings = survey(smoke, store)
        assert set(standings) == {trial.key for trial in smoke.trials}
        ours = standings[victim.key], standings[attack.key]
        assert ours[0].weights in (None, trained.checkpoint_sha256, 64 * "b")
        first, second = (each._replace(source=None) for each in ours)
        return first._replace(weights=None), second._replace(parent_weights=None)

    assert states() == (Standing("done", 2.0), Standing("done", 3.0))
    store.write(trained.model_copy(update={"checkpoint_sha256": 64 * "b"}))
    assert states() == (Standing("done", 2.0), Standing("outdated"))
    store.write(trained.model_copy(update={"source": HASH}))
    assert states() == (Standing("outdated"), Standing("outdated"))
    store.write(failure(attack, "long\nshort"))
    assert states()[1] == Standing("failed", cause="short")
    store.record_path(victim.key).write_text("{}")
    assert states()[0].state == "damaged"


@pytest.mark.parametrize("before", ["done", "kept", "unscored"])
def test_what_was_made_with_weights_that_are_trained_to_others_is_left_behind(
    smoke, tmp_path, before
):
    """Also where it was only measured again meanwhile."""
    store, victim, attack = Store(tmp_path), smoke.victims[0], smoke.attacks[0]
    store.write(victim_record(victim))
    store.write(attack_record(attack))
    standings = dict.fromkeys((t.key for t in smoke.trials), ABSENT)
    standings[attack.key] = Standing(before)
    assert left_behind(smoke, standings, store) == []
    store.write(victim_record(victim).model_copy(update={"checkpoint_sha256": 64 * "b"}))
    assert left_behind(smoke, standings, store) == [attack]
    assert left_behind(smoke, standings | {attack.key: ABSENT}, store) == []


def test_the_minutes_of_a_suite_are_those_of_as_many_trials_as_it_has():
    """Of another training nobody knows."""
    minutes = suite.load("quick").core_minutes
    assert minutes
    assert suite.load("quick", ["seeds=[0]"]).core_minutes == minutes / 2
    more = suite.load("quick", ["attacks.again={use='mean'}", "defenses.again={use='none'}"])
    trials = len(suite.load("quick").trials)
    assert more.core_minutes == pytest.approx(minutes * len(more.trials) / trials)
    assert len(more.trials) > trials
    assert suite.load("quick", ["seeds=[0]", "training.epochs=3"]).core_minutes is None


def test_a_suite_with_plug_ins_keeps_its_minutes(tmp_path):
    file = tmp_path / "mine.toml"
    quick = (suite.SUITES / "quick.toml").read_text()
    file.write_text(f"plugins = []\n{quick}")
    assert suite.load(str(file), ["seeds=[0]"]).core_minutes == suite.load("quick").core_minutes / 2
