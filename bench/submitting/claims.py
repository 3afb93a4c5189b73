"""What records say of the component that made them: is it what its code declares?"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from smashbench.attacks import ATTACKS
from smashbench.attacks.base import GRANTS
from smashbench.bench.report.verdict import listed
from smashbench.bench.store.record import AttackRecord, FinishedRecord
from smashbench.bench.store.store import Store
from smashbench.bench.submitting.finding import Finding
from smashbench.bench.suite.make_defense import trial_piece
from smashbench.bench.suite.trial import Trial

Facts = dict[str, object]


def check_claims(trials: Iterable[Trial], store: Store) -> Iterator[Finding]:
    """Whether records say of an attack its kind and its threat model, and of a defense its role
    and its group, as the code does: they decide which rows are compared with which, and which
    attack may be a worst case.

    Args:
        trials: those that are finished, by this version's code, with components that are here.
        store: their records.
    """
    wrong: defaultdict[str, list[str]] = defaultdict(list)
    for trial in trials:
        if record := store.finished(trial.key):
            for text in _differences(trial, record):
                wrong[text].append(trial.label)
    for text, labels in wrong.items():
        yield Finding("PROBLEM", f"{text}: {listed(labels)}")


def _differences(trial: Trial, record: FinishedRecord) -> Iterator[str]:
    try:
        declared = _declared(trial)
    except Exception as error:  # of options that somebody made up, or a component of their own
        yield f"what is said to have made a record cannot be made: {type(error).__name__}: {error}"
        return
    for what, value in _said(record).items():
        if value != declared[what]:
            yield f"records say {what} = {value!r}, and the code {declared[what]!r}"


def _declared(trial: Trial) -> Facts:
    """What the code of an attack, or of a defense, says of it with these options."""
    if trial.attack:
        attack = ATTACKS[trial.attack.name](**trial.attack.options)
        return {
            "kind": attack.kind,
            "grants": [grant for grant in GRANTS if grant in attack.needs],
            "noise_aware": attack.noise_aware,
            "releases_per_image": attack.releases,
        }
    defense = trial_piece(trial.victim.defense)
    return {"role": defense.role, "group": defense.group}


def _said(record: FinishedRecord) -> Facts:
    if isinstance(record, AttackRecord):
        threat = record.threat_model
        return {
            "kind": record.kind,
            "grants": threat.grants,
            "noise_aware": threat.noise_aware,
            "releases_per_image": threat.releases_per_image,
        }
    return {"role": record.facts.role, "group": record.facts.group}
