"""The store: whole or not at all, and nothing altered is believed."""

import hashlib
import json
import os

import pytest
import torch

from bench.errors import BenchError
from bench.files import DamagedError, read_checked, read_json, write_json, write_whole
from bench.store import Store
from bench.trials import key_of
from bench.victim import Victim


def test_keys_are_canonical():
    assert key_of({"a": 1, "b": [1.0, None]}) == key_of({"b": [1.0, None], "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})
    with pytest.raises(ValueError, match="JSON"):
        key_of({"a": float("nan")})


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
    with pytest.raises(BenchError, match=r"cannot write .*choose another --out"):
        write_json(blocked / "record.json", {})


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe"])
def test_a_truncated_record_is_named(tmp_path, content):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(BenchError, match=r"record.json: truncated or altered; run the suite again"):
        read_json(path)


def test_a_record_under_another_name_is_refused(tmp_path):
    store = Store(tmp_path)
    config = {"seed": 0}
    record = {"key": key_of(config), "status": "ok", "config": config}
    store.write(record)
    assert store.get(record["key"]) == record
    assert store.get("fedcba9876543210") is None
    store.write(record | {"status": "failed"})
    assert store.get(record["key"]) is None
    path = store.record_path(record["key"])
    path.rename(path.with_name("0123456789abcdef.json"))
    with pytest.raises(DamagedError, match="does not belong to its name"):
        store.get("0123456789abcdef")
    with pytest.raises(DamagedError, match=r"fedcba9876543210.json: not there"):
        store.need("fedcba9876543210")


def written(folder) -> tuple[Store, str]:
    config = {"seed": 0}
    record = {"key": key_of(config), "status": "ok", "config": config, "mse": 0.0123}
    Store(folder).write(record)
    return Store(folder), record["key"]


def test_a_record_is_readable_json_that_ends_in_the_hash_of_what_is_before(tmp_path):
    store, key = written(tmp_path)
    content = store.record_path(key).read_text()
    text, _, seal = content.rpartition(',\n "sha256": "')
    assert json.loads(content)["mse"] == 0.0123
    assert seal == hashlib.sha256(text.encode()).hexdigest() + '"\n}\n'


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
    assert (tmp_path / "set_aside" / path.name).read_bytes() == content


def test_half_written_files_are_swept_but_not_those_of_a_trial_that_runs(tmp_path):
    store, key = written(tmp_path)
    left = tmp_path / "records" / f".{key}.json.abc.part"
    running = tmp_path / "victims" / ".0123456789abcdef.safetensors.abc.part"
    report, old = tmp_path / ".leaderboard.csv.abc.part", tmp_path / ".costs.csv.abc.part"
    running.parent.mkdir()
    for path in (left, running, report, old):
        path.touch()
    os.utime(old, (0, 0))
    with Store(tmp_path).claim("0123456789abcdef"):
        store.sweep()
    assert [path.exists() for path in (left, running, report, old)] == [False, True, True, False]
    assert store.record_path(key).exists()


def test_weights_come_back_and_a_damaged_file_is_refused(tmp_path):
    victim, other = (Victim("small", "kmeans_cem", {}, (3, 32, 32), 3) for _ in range(2))
    path = tmp_path / "victims" / "key.safetensors"
    sha256 = victim.save(path)
    other.restore(path, sha256)
    for a, b in zip(victim.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    content = path.read_bytes()
    for damaged in (content[:-1], content[:100] + b"X" + content[101:], b""):
        path.write_bytes(damaged)
        with pytest.raises(
            BenchError, match=r"key\.safetensors: truncated or altered; run the suite"
        ):
            other.restore(path, sha256)
    path.unlink()
    with pytest.raises(BenchError, match="No such file"):
        read_checked(path, sha256)
