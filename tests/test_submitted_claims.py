"""What records say of their own attack, defense or test images, and `submit-check` does not
believe."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load, save

from smashbench.bench.experiment.scoring import flags_of, summarise
from smashbench.bench.store.pack import pack
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import RECONSTRUCTIONS, Store
from smashbench.bench.submitting.claims import check_claims
from smashbench.bench.submitting.suites import TELL
from smashbench.bench.suite import toml
from smashbench.bench.suite.config import DefenseConfig, key_of
from smashbench.bench.suite.trial import Suite, Trial
from tests.forge import HASH, attack_trial, keep_attack, keep_victim, victim_record, victim_trial
from tests.test_submissions import problems, texts


def rewritten(store, record, scores=None, **changes):
    """A record with other fields and scores, sealed again as an author could."""
    if scores:
        changes["arrays"] = record.arrays | store.write_arrays(record.key, {"scores": save(scores)})
    store.write(record.model_copy(update=changes))


def scores_of(store, record):
    return load(store.content(store.arrays_name(record.key, "scores")))


@pytest.mark.parametrize(
    ("attack", "what", "value", "words"),
    [
        ("gmm", "releases_per_image", 4, "releases_per_image = 4, and the code 1: "),
        ("gmm", "grants", ["pairs", "client"], "['pairs', 'client'], and the code ['pairs']: "),
        ("mean", "noise_aware", True, "noise_aware = True, and the code False: "),
        ("gmm", "kind", "trained", "kind = 'trained', and the code 'closed_form': "),
    ],
)
def test_what_a_record_says_of_its_attack_is_what_the_code_says(
    tiny_copy, attack, what, value, words
):
    """Several releases, say, are another threat: such an attack is never the worst case."""
    store, suite = Store(tiny_copy), read_suite(tiny_copy)
    assert not list(check_claims(suite.trials, store))
    trial = next(t for t in suite.attacks if t.attack.label == attack)
    record = store.attack(trial.key)
    threat = record.threat_model
    if what == "kind":
        rewritten(store, record, kind=value)
    else:
        rewritten(store, record, threat_model=threat.model_copy(update={what: value}))
    (found,) = problems(tiny_copy)
    assert words in found
    assert trial.label in found


def test_an_undefended_row_cannot_call_itself_a_defense(tiny_copy):
    """With ``--replace`` it would take the place of the board's."""
    store = Store(tiny_copy)
    trial = next(t for t in read_suite(tiny_copy).victims if t.defense_label == "none")
    facts = store.victim(trial.key).facts
    for change, words in (
        ({"role": "defense"}, "role = 'defense', and the code 'control': none, seed 0"),
        ({"group": "CEM"}, "group = 'CEM', and the code 'baseline': none, seed 0"),
    ):
        rewritten(store, store.victim(trial.key), facts=facts.model_copy(update=change))
        (found,) = problems(tiny_copy)
        assert words in found


def test_a_stack_has_the_role_and_group_of_a_stack(tmp_path):
    stack = 'defenses={both={use=["noise","dropout"]}}'
    (trial,) = toml.load("smoke", [stack]).victims
    store, plain = Store(tmp_path), victim_record(victim_trial())
    facts = plain.facts.model_copy(update={"role": "defense", "group": "stacks"})
    rewritten(store, plain, key=trial.key, config=trial.config, facts=facts)
    assert not list(check_claims([trial], store))
    rewritten(store, plain, key=trial.key, config=trial.config)
    found = [each.text for each in check_claims([trial], store)]
    assert [text.partition(",")[0] for text in found] == [
        "records say role = 'baseline'",
        "records say group = 'other'",
    ]


def test_options_that_make_no_attack_are_a_problem(tmp_path):
    trial = attack_trial(victim_trial())
    chosen = trial.attack.model_copy(update={"options": {"nonsense": 1}})
    config = trial.config.model_copy(update={"attack": chosen})
    trial = Trial(key_of(config), config, trial.parent)
    keep_attack(Store(tmp_path), trial)
    (found,) = check_claims([trial], Store(tmp_path))
    assert found.kind == "PROBLEM"
    assert "cannot be made: TypeError" in found.text
    assert trial.label in found.text


def test_nothing_is_said_of_a_component_that_is_not_here(tmp_path):
    """Its plug-in was not given, which is a problem of its own."""
    store, victim = Store(tmp_path), victim_trial("their_defense", 0.5)
    attack = attack_trial(victim, "their_attack")
    save_suite(Suite("theirs", "", (victim,), (attack,)), tmp_path)
    keep_attack(store, attack, victim_sha256=keep_victim(store, victim).checkpoint_sha256)
    found = problems(tmp_path)
    assert any(TELL["unverified"] in text for text in found)
    assert not [text for text in found if "the code" in text or "cannot be made" in text]


def test_records_of_other_code_may_say_what_that_declared(tiny_copy):
    store = Store(tiny_copy)
    record = store.attack(read_suite(tiny_copy).attacks[0].key)
    rewritten(store, record, kind="trained", source=HASH)
    (found,) = problems(tiny_copy)
    assert TELL["outdated"] in found


@pytest.mark.parametrize("groups", [None, np.arange(40) // 20])
def test_test_images_are_in_the_groups_that_they_have_here(tiny_copy, groups):
    """Intervals are over groups: other ones make them as narrow as one likes."""
    store = Store(tiny_copy)
    trial = read_suite(tiny_copy).victims[0]
    record = store.victim(trial.key)
    scores = scores_of(store, record)
    here = len(np.unique(scores.pop("group")))
    rewritten(store, record, scores | ({} if groups is None else {"group": groups}))
    (found,) = problems(tiny_copy)
    said = 0 if groups is None else 2
    assert found.endswith(f"other groups than here: {trial.label} ({said} of them, here {here})")


def test_attacks_without_reconstructions_beside_others_that_have_them_are_named(tiny_copy):
    """An author could leave out those that would tell."""
    store, attacks = Store(tiny_copy), read_suite(tiny_copy).attacks
    first, *others = attacks
    path = store.arrays_path(first.key, RECONSTRUCTIONS)
    path.write_bytes(path.read_bytes()[:-1])
    for _ in ("altered", "missing"):
        (found,) = problems(tiny_copy)
        assert f"1 of {len(attacks)} attacks could not be scored again" in found
        assert f": {first.label}; run" in found
        path.unlink(missing_ok=True)
    for trial in others:
        store.arrays_path(trial.key, RECONSTRUCTIONS).unlink()
    assert not problems(tiny_copy)
    assert "no reconstruction is in it" in texts(tiny_copy, "note")


def test_a_victim_whose_weights_are_not_packed_is_not_missing(tiny_copy, tmp_path):
    """Its attack is to be run again, and would need them; a submission needs none."""
    store = Store(tiny_copy)
    trial = read_suite(tiny_copy).attacks[0]
    rewritten(store, store.attack(trial.key), source=HASH)
    pack(tiny_copy)
    (tmp_path / "sent.zip").write_bytes((tiny_copy / "packed.zip").read_bytes())
    (found,) = problems(tmp_path / "sent.zip")
    assert TELL["outdated"] in found
    assert trial.label in found


def namesake(folder, *, run):
    """A folder of a run with one more row, the first, that is printed like its noise 0.3: it is
    called so, and has no strength. Its records have other scores; without them where not ``run``.
    """
    store, suite = Store(folder), read_suite(folder)
    trials = [trial for trial in suite.trials if trial.row == "noise 0.3"]
    made = []
    for trial in trials:
        old = trial.victim.defense
        defense = DefenseConfig(
            label="noise 0.3", name=old.name, options=old.options, strength=None
        )
        victim = trial.victim.model_copy(update={"defense": defense})
        config = trial.config.model_copy(update={"victim": victim}) if trial.attack else victim
        made.append(Trial(key_of(config), config, key_of(victim) if trial.attack else None))
        if not run:
            continue
        record = store.finished(trial.key)
        arrays = {n: store.arrays_path(trial.key, n).read_bytes() for n in record.arrays}
        changes = {"key": made[-1].key, "config": config, "parent": made[-1].parent}
        if trial.attack:
            scores = load(arrays["scores"])
            scores["mse"] = np.minimum(5 * scores["mse"], 1)
            arrays["scores"] = save(scores)
            floor = store.victim(trial.parent).floors["mean_image"]
            changes |= summarise(scores, floor)
            changes["flags"] = flags_of(changes["metrics"], floor, record.converged)
        changes["arrays"] = store.write_arrays(made[-1].key, arrays)
        store.write(record.model_copy(update=changes))
    victims = tuple(trial for trial in made if not trial.attack)
    attacks = tuple(trial for trial in made if trial.attack)
    both = replace(suite, victims=victims + suite.victims, attacks=attacks + suite.attacks)
    save_suite(both, folder)
    return [trial.label for trial in attacks]


def test_every_attack_is_scored_again_whatever_it_is_called(tiny_copy):
    labels = namesake(tiny_copy, run=True)
    (found,) = problems(tiny_copy)
    assert found.startswith("2 of 6 attacks have other scores than their reconstructions: ")
    assert found.endswith(", ".join(labels))


def test_a_row_that_was_not_run_is_not_begun_because_another_is_called_so(tiny_copy):
    namesake(tiny_copy, run=False)
    assert not problems(tiny_copy)
    assert "rows of the suite that were not run: noise 0.3" in texts(tiny_copy, "note")
