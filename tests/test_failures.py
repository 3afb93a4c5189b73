"""Nothing that was finished is lost to a failure, to a file out of reach, or to another run."""

import errno
from functools import partial

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.run import attempt as attempts
from smashbench.bench.run.attempt import Outcome, attempt, failure
from smashbench.bench.run.survey import mend
from smashbench.bench.store import archive
from smashbench.bench.store.failures import success_before, write_failure
from smashbench.bench.store.files import DamagedError, stamp_of
from smashbench.bench.store.pack import pack
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.source import source_of
from smashbench.bench.suite.trial import Suite
from tests.forge import HASH, attack_trial, keep_attack, keep_victim, victim_trial

VICTIM = victim_trial()
ATTACK = attack_trial(VICTIM)
SUITE = Suite("hand", "", (VICTIM,), (ATTACK,))


@pytest.fixture
def store(tmp_path) -> Store:
    save_suite(SUITE, tmp_path)
    keep_victim(store := Store(tmp_path), VICTIM)
    keep_attack(store, ATTACK)
    return store


def states(store: Store) -> dict[str, str]:
    return {key: standing.state for key, standing in mend(SUITE, store)[0].items()}


@pytest.mark.parametrize("packed", [False, True])
def test_what_failed_under_code_that_was_taken_back_is_finished_again(store, packed):
    before = store.content(store.record_name(ATTACK.key))
    if packed:
        pack(store.folder)
    write_failure(store, failure(ATTACK, "a slip"))
    assert store.read(ATTACK.key).status == "failed"
    if packed:
        pack(store.folder)  # with the failure
    assert states(store)[ATTACK.key] == "done"
    assert store.content(store.record_name(ATTACK.key)) == before
    assert not list((store.folder / "set_aside").glob("*/*"))


def test_a_success_of_other_code_stays_aside(store):
    keep_attack(store, ATTACK, source=HASH)
    write_failure(store, failure(ATTACK, "first"))
    write_failure(store, failure(ATTACK, "second"))  # not in the place of the success
    assert states(store)[ATTACK.key] == "failed"
    assert store.read(ATTACK.key).cause == "second"
    assert success_before(store, ATTACK.key).source == HASH


def test_a_success_aside_does_not_replace_a_newer_one(store):
    write_failure(store, failure(ATTACK, "a slip"))
    newer = keep_attack(store, ATTACK, mse=0.01)
    assert states(store)[ATTACK.key] == "done"
    assert store.read(ATTACK.key) == newer


def test_a_success_on_other_weights_or_without_its_scores_stays_aside(store):
    """It would not count, and the cause of the failure would be lost with every look."""
    for spoil in ("weights", "scores"):
        other = {"victim_sha256": "1" * 64} if spoil == "weights" else {}
        success = keep_attack(store, ATTACK, **other)
        if spoil == "scores":
            store.arrays_path(ATTACK.key, "scores").write_bytes(b"")
        write_failure(store, failure(ATTACK, "stopped at its time limit"))
        assert states(store)[ATTACK.key] == "failed"
        assert store.read(ATTACK.key).cause == "stopped at its time limit"
        assert success_before(store, ATTACK.key) == success
        store.folder.joinpath("set_aside", store.record_name(ATTACK.key)).unlink()


def test_a_damaged_failure_is_not_set_aside_over_the_success_that_it_stands_for(store):
    success = keep_attack(store, ATTACK, victim_sha256="1" * 64)
    write_failure(store, failure(ATTACK, "a slip"))
    path = store.record_path(ATTACK.key)
    path.write_bytes(path.read_bytes()[:-9])
    mend(SUITE, store)
    assert success_before(store, ATTACK.key) == success
    assert store.folder.joinpath("set_aside/records", f"{path.name}.damaged").exists()


def test_an_attack_on_releases_of_other_code_is_outdated(store):
    """A defense that was edited may train to the same weights and release something else."""
    source = store.victim(VICTIM.key).source
    for known, state in ((source, "done"), (HASH, "outdated"), (None, "done")):
        keep_attack(store, ATTACK, victim_source=known)
        assert states(store)[ATTACK.key] == state
    keep_victim(store, VICTIM, source=HASH)
    keep_attack(store, ATTACK, victim_source=HASH)
    assert mend(SUITE, store, keep=True)[0][ATTACK.key].state == "done"


def test_code_that_is_edited_during_a_run_stops_it(store, monkeypatch):
    """A worker has imported what it was before, and reads its source when it needs it."""
    monkeypatch.setattr(attempts, "counts", lambda *_, **__: True)
    monkeypatch.setattr(attempts, "_run", lambda *_, **__: Outcome("done", "tried"))
    write_failure(store, failure(ATTACK, "a slip"))
    begun = partial(attempt, ATTACK, folder=store.folder, data=None, minutes=1)
    known = frozenset({source_of(ATTACK), HASH})
    assert begun(sources=known) == Outcome("done", "tried")
    state, text, _ = begun(sources=frozenset({HASH}))
    assert state == "stop"
    assert "its code was edited while this run was at work" in text


OUT_OF_REACH = [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE]


@pytest.mark.parametrize("number", OUT_OF_REACH, ids=map(errno.errorcode.get, OUT_OF_REACH))
@pytest.mark.parametrize("packed", [False, True])
def test_what_cannot_be_read_now_stays_where_it_is(store, packed, number, monkeypatch):
    if packed:
        pack(store.folder)

    def refuse(path, *_):
        raise OSError(number, "out of reach", str(path))

    monkeypatch.setattr(*((archive, "ZipFile") if packed else ("builtins.open",)), refuse)
    before = sorted(store.folder.rglob("*"))
    with pytest.raises(
        BenchError, match=r"cannot read .* \(out of reach\); it was left"
    ) as refused:
        mend(SUITE, Store(store.folder))
    assert not isinstance(refused.value, DamagedError)
    assert sorted(store.folder.rglob("*")) == before


def test_what_another_run_has_just_failed_is_not_tried_again(store, monkeypatch):
    """A trial that takes its hours to hang costs them once."""
    write_failure(store, failure(ATTACK, "it hung"))
    stamp = stamp_of(store.record_path(ATTACK.key))
    monkeypatch.setattr(attempts, "counts", lambda *_, **__: True)
    monkeypatch.setattr(attempts, "_run", lambda *_, **__: Outcome("done", "tried"))
    again = partial(attempt, ATTACK, folder=store.folder, data=None, minutes=1)
    store.folder.joinpath("set_aside", store.record_name(ATTACK.key)).unlink()
    assert again(failures={}) == Outcome("failed", "it hung")
    assert again(failures={ATTACK.key: stamp}) == Outcome("done", "tried")
    assert again() == Outcome("done", "tried")  # by `trial`
    write_failure(store, failure(ATTACK, "too large", left_out=True))
    assert again(failures={}) == Outcome("done")
    assert again() == Outcome("done", "tried")
