"""Records and scores in one file."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from bench import leaderboard, tables
from bench.errors import BenchError
from bench.files import DamagedError, Pack
from bench.pack import pack
from bench.saved import read_suite
from bench.store import Store

TABLES = ("leaderboard.csv", "leaderboard_by_defense.csv", "records.csv", "costs.csv")


@pytest.fixture
def packed(copy):
    trials = len(read_suite(copy).trials)
    assert pack(copy) == trials
    return copy


def test_what_is_packed_reads_the_same(packed, run, here, tmp_path):
    assert not list((packed / "records").iterdir())
    assert not list((packed / "scores").iterdir())
    done = here("report", packed, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for name in TABLES:
        assert (tmp_path / "out" / name).read_bytes() == (run / name).read_bytes(), name
    assert (tmp_path / "out" / "gallery.png").read_bytes() == (run / "gallery.png").read_bytes()


def test_any_reader_of_safetensors_reads_it(packed, run):
    files = load_file(packed / "packed.safetensors")
    for path in [*(run / "records").iterdir(), *(run / "scores").iterdir()]:
        assert files.pop(f"{path.parent.name}/{path.name}").tobytes() == path.read_bytes()
    assert not files


@pytest.mark.slow
def test_a_packed_run_is_done_and_a_new_record_counts(packed, here):
    assert "0 to run" in here("run", "smoke", "--out", packed, "--dry-run").stdout
    store, suite = Store(packed), read_suite(packed)
    key = suite.attacks[0].key
    store.write(store.need(key) | {"status": "failed", "error": "by hand"})
    assert "1 failed" in here("status", packed).stdout
    pack(packed)
    assert Store(packed).read(key)["error"] == "by hand"
    assert not list((packed / "records").iterdir())
    assert here("rerun", packed, "--failed", "--workers", 1).returncode == 0
    assert Store(packed).need(key)


def test_without_samples_all_tables_are_there_and_the_pictures_of_images_are_not(
    packed, run, here, tmp_path
):
    shutil.rmtree(packed / "samples")
    assert "missing" not in here("status", packed).stdout
    done = here("report", packed, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for name in TABLES:
        assert (tmp_path / "out" / name).read_bytes() == (run / name).read_bytes(), name
    assert (tmp_path / "out" / "tradeoff_mse.png").exists()
    assert not (tmp_path / "out" / "gallery.png").exists()


def test_a_packed_folder_stands_beside_another(packed, run, tmp_path):
    board, _ = leaderboard.read([packed, run])
    tables.write_csv(tables.leaderboard(board), tmp_path / "leaderboard.csv")
    tables.write_records(board, tmp_path / "records.csv")
    for name in ("leaderboard.csv", "records.csv"):
        assert (tmp_path / name).read_bytes() == (run / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "head", "inside"])
def test_a_damaged_pack_is_named_and_its_trials_are_done_again(packed, run, here, damage):
    path = packed / "packed.safetensors"
    content = bytearray(path.read_bytes())
    if damage == "inside":
        content[len(content) // 2] ^= 1
    path.write_bytes(content[: {"cut": -10, "head": 5}.get(damage)])
    done = here("report", packed)
    assert done.returncode == 2
    assert "truncated or altered" in done.stderr
    state = here("status", packed).stdout
    assert "damaged" in state
    assert here("run", "smoke", "--out", packed, "--workers", 2).returncode == 0
    for name in TABLES[:2]:
        assert (packed / name).read_bytes() == (run / name).read_bytes()


def test_every_flipped_bit_of_a_head_is_noticed_or_harmless(tmp_path):
    """Whatever it turns the head into; a name that changed is a file that is not there."""
    content = save({"a": np.arange(5, dtype=np.uint8), "bc": np.arange(3, dtype=np.uint8)})
    path = tmp_path / "packed"
    refused = 0
    for bit in range(8 * (len(content) - 8)):
        altered = bytearray(content)
        altered[bit // 8] ^= 1 << bit % 8
        path.write_bytes(altered)
        try:
            files = Pack(path)
            assert all(isinstance(files.get(name), bytes | None) for name in ("a", "bc"))
        except DamagedError:
            refused += 1
    assert refused > bit / 3


def test_a_folder_in_use_or_without_results_is_not_packed(copy, tmp_path):
    with Store(copy).claim(read_suite(copy).victims[0].key), pytest.raises(BenchError, match="run"):
        pack(copy)
    assert list((copy / "records").iterdir())
    with pytest.raises(BenchError, match="no results folder"):
        pack(tmp_path)


def test_nothing_damaged_is_packed(copy):
    path = next((copy / "scores").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BenchError, match="truncated or altered"):
        pack(copy)
    assert not (copy / "packed.safetensors").exists()
