"""The store: whole or not at all, and nothing altered is believed."""

import os

import pytest
import torch

from bench.errors import BenchError
from bench.store import Store, key_of, read_checked, read_json, write_json, write_whole
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
    with pytest.raises(BenchError, match=r"record.json is truncated or altered"):
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
    store.write(record | {"key": "0123456789abcdef"})
    with pytest.raises(BenchError, match="does not belong to its name"):
        store.get("0123456789abcdef")


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
        with pytest.raises(BenchError, match=r"key\.safetensors: truncated or altered; delete"):
            other.restore(path, sha256)
    path.unlink()
    with pytest.raises(BenchError, match="No such file"):
        read_checked(path, sha256)
