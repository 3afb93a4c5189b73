"""A small folder of records made by hand, to be forged, and what must come of a forgery."""

from pathlib import Path

from smashbench.bench.errors import BenchError
from smashbench.bench.report.rows import read
from smashbench.bench.run.attempt import failure
from smashbench.bench.run.status import status
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite, Trial
from tests.forge import attack_trial, keep_attack, keep_victim, victim_trial


def write_sound(folder: Path) -> None:
    """A small folder that nothing is wrong with: two defenses, two attacks, one of which failed
    once."""
    store = Store(folder)
    victims = [victim_trial("none", None), victim_trial("kmeans_cem", 0.5)]
    attacks = [attack_trial(victim, name) for victim in victims for name in ("mean", "gmm")]
    save_suite(Suite("forged", "Made by hand.", tuple(victims), tuple(attacks), "run"), folder)
    for victim in victims:
        keep_victim(store, victim, checkpoint_sha256=store.write_weights(victim.key, b"weights"))
    for attack in attacks[:-1]:
        sha256 = store.victim(str(attack.parent)).checkpoint_sha256
        keep_attack(store, attack, victim_sha256=sha256)
    store.write(failure(attacks[-1], "a long story\nno memory"))


def trials(folder: Path) -> dict[str, Trial]:
    suite = read_suite(folder)
    return {"victim": suite.victims[0], "attack": suite.attacks[0], "failed": suite.attacks[-1]}


def named(error: BenchError, folder: Path, *names: str) -> None:
    assert str(folder) in str(error)
    for name in names:
        assert name in str(error)


def survives(folder: Path, name: str) -> None:
    """A report and ``status`` work, or name the folder and the file."""
    try:
        read(folder)
    except BenchError as error:
        named(error, folder, name)
    text = status(read_suite(folder), folder)
    assert "damaged" not in text or name in text
