"""The store: whole or not at all, and nothing altered is believed."""

import hashlib
import json
import os
import subprocess

import pytest
import torch

from smashbench.bench.errors import BenchError
from smashbench.bench.run.attempt import failure
from smashbench.bench.store.files import DamagedError, write_whole
from smashbench.bench.store.locks import share, wait_for_writers
from smashbench.bench.store.store import Store
from smashbench.bench.suite.config import Component, VictimConfig, key_of
from tests.fitted import victim_of
from tests.forge import attack_record, attack_trial, keep_victim, victim_record, victim_trial


def with_options(**options) -> VictimConfig:
    dataset = Component(name="photos", options=options)
    return victim_trial().victim.model_copy(update={"dataset": dataset})


def test_keys_are_canonical():
    whole = key_of(with_options(a=1, b=[1.0, None]))
    assert whole == key_of(with_options(b=[1.0, None], a=1))
    assert whole != key_of(with_options(a=2, b=[1.0, None]))
    assert key_of(with_options(a=1)) != key_of(with_options(a=1.0))
    with pytest.raises(ValueError, match="'a' is no number"):
        with_options(a=float("nan"))


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file"
    write_whole(path, b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BenchError, match=r"cannot write .*file \(No space left on device\)"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_an_unwritable_folder_is_one_clear_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(BenchError, match=r"cannot write .*use another folder"):
        Store(blocked).write(victim_record(victim_trial()))


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe"])
def test_a_truncated_record_is_named(tmp_path, content):
    store, key = written(tmp_path)
    store.record_path(key).write_bytes(content)
    with pytest.raises(BenchError, match=rf"{key}.json: truncated or altered; smashbench rerun "):
        store.read(key)


def test_a_record_under_another_name_is_refused(tmp_path):
    store, trial = Store(tmp_path), victim_trial()
    record = victim_record(trial)
    store.write(record)
    assert store.finished(trial.key) == record
    assert store.victim(trial.key) == record
    assert store.attack(trial.key) is None
    assert store.finished("fedcba9876543210") is None
    store.write(failure(trial, "no memory"))
    assert store.read(trial.key) == failure(trial, "no memory")
    assert store.finished(trial.key) is None
    path = store.record_path(trial.key)
    path.rename(path.with_name("0123456789abcdef.json"))
    for find in (store.read, store.finished, store.victim, store.attack):
        with pytest.raises(DamagedError, match=r"0123456789abcdef.json: does not belong to its"):
            find("0123456789abcdef")


def test_an_attack_comes_back_as_it_was(tmp_path):
    store, trial = Store(tmp_path), attack_trial(victim_trial())
    record = attack_record(trial)
    store.write(record)
    assert store.read(trial.key) == store.attack(trial.key) == record
    assert store.victim(trial.key) is None


def written(folder) -> tuple[Store, str]:
    store, trial = Store(folder), victim_trial()
    keep_victim(store, trial, accuracy=0.75)
    return store, trial.key


def test_a_record_is_readable_json_that_ends_in_the_hash_of_what_is_before(tmp_path):
    store, key = written(tmp_path)
    content = store.record_path(key).read_text()
    text, _, seal = content.rpartition(',\n "sha256": "')
    assert json.loads(content)["metrics"]["accuracy"] == 0.75
    assert seal == hashlib.sha256(text.encode()).hexdigest() + '"\n}\n'


@pytest.mark.slow
def test_any_changed_byte_of_a_record_is_noticed(tmp_path):
    store, key = written(tmp_path)
    path = store.record_path(key)
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(DamagedError, match="truncated or altered"):
            store.read(key)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedError, match="truncated or altered"):
            store.read(key)


def test_a_claim_is_one_process_s_at_a_time_and_leaves_nothing(tmp_path):
    one, other = Store(tmp_path), Store(tmp_path)
    assert not one.claimed("key")
    with one.claim("key") as ours:
        assert ours
        assert other.claimed("key")
        with other.claim("key") as theirs:
            assert not theirs
        with other.claim("another") as free:
            assert free
    assert not other.claimed("key")
    assert list((tmp_path / "locks").iterdir()) == []


def test_what_is_damaged_is_set_aside_and_may_be_gone(tmp_path):
    store, key = written(tmp_path)
    path = store.record_path(key)
    content = path.read_bytes()
    store.set_aside(path)
    store.set_aside(path)
    assert not path.exists()
    assert (tmp_path / "set_aside" / path.relative_to(tmp_path)).read_bytes() == content


def test_half_written_files_are_swept_but_not_those_of_a_trial_that_runs(tmp_path):
    store, key = written(tmp_path)
    left = tmp_path / "records" / f".{key}.json.abc.part"
    running = tmp_path / "victims" / ".0123456789abcdef.safetensors.abc.part"
    report, old = tmp_path / ".leaderboard.csv.abc.part", tmp_path / ".costs.csv.abc.part"
    running.parent.mkdir()
    plugin = tmp_path / "plugins" / ".mine.py.abcdef0123456789.part"  # of another process
    plugin.parent.mkdir()
    for path in (left, running, report, old, plugin):
        path.touch()
    os.utime(old, (0, 0))
    with Store(tmp_path).claim("0123456789abcdef"):
        store.sweep()
    assert [path.exists() for path in (left, running, report, old)] == [False, True, True, False]
    assert plugin.exists()
    assert store.record_path(key).exists()


def test_weights_come_back_and_a_damaged_file_is_refused(tmp_path):
    victim, other = (victim_of("small", "kmeans_cem", {}, (3, 32, 32), 3) for _ in range(2))
    store = Store(tmp_path)
    sha256 = store.write_weights("key", victim.weights())
    other.restore(store.weights("key", sha256))
    for a, b in zip(victim.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    path = store.victim_path("key")
    content = path.read_bytes()
    for damaged in (content[:-1], content[:100] + b"X" + content[101:], b""):
        path.write_bytes(damaged)
        with pytest.raises(
            BenchError, match=r"key\.safetensors: truncated or altered; smashbench rerun "
        ):
            store.weights("key", sha256)
    path.unlink()
    with pytest.raises(BenchError, match="No such file"):
        store.weights("key", sha256)


def test_what_others_still_write_is_waited_for(tmp_path):
    path = tmp_path / "log"
    with path.open("w") as log:
        share(log)
        command = ["sh", "-c", "read go; sleep 0.2; echo done"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log)
    wait_for_writers(path, 0)
    assert path.read_text() == ""
    assert child.stdin
    child.stdin.write(b"go\n")
    child.stdin.close()
    wait_for_writers(path, 60)
    assert path.read_text() == "done\n"
    wait_for_writers(tmp_path / "missing", 60)  # nobody does
    child.wait()
