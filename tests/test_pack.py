"""Records and scores in one file."""

import json
import shutil
import time
from hashlib import sha256
from zipfile import ZipFile

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.report.rows import read
from smashbench.bench.report.tables import TABLES as FRAMES
from smashbench.bench.report.tables import write_csv
from smashbench.bench.run.attempt import failure
from smashbench.bench.run.survey import mend, survey
from smashbench.bench.store.archive import Archive, archive_of
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.pack import pack, pack_weights
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite

TABLES = ("leaderboard.csv", "leaderboard_by_defense.csv", "records.csv", "costs.csv")


@pytest.fixture
def packed(copy):
    trials = len(read_suite(copy).trials)
    assert pack(copy) == trials
    return copy


@pytest.mark.slow
def test_what_is_packed_reads_the_same(packed, run, here, tmp_path):
    assert not list((packed / "records").iterdir())
    assert not list((packed / "scores").iterdir())
    done = here("report", packed, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for name in TABLES:
        assert (tmp_path / "out" / name).read_bytes() == (run / name).read_bytes(), name
    assert (tmp_path / "out" / "gallery.png").read_bytes() == (run / "gallery.png").read_bytes()


def test_any_reader_of_zip_archives_reads_it_and_its_list(packed, run):
    with ZipFile(packed / "packed.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    hashes = json.loads(files.pop("manifest.json"))
    assert hashes == {name: sha256(content).hexdigest() for name, content in files.items()}
    for path in [*(run / "records").iterdir(), *(run / "scores").iterdir()]:
        assert files.pop(f"{path.parent.name}/{path.name}") == path.read_bytes()
    assert files == {"suite.json": (run / "suite.json").read_bytes()}


def test_what_the_suite_has_no_more_is_a_file_again_when_it_is_packed_anew(packed, run):
    suite, store = read_suite(packed), Store(packed)
    gone = next(trial for trial in suite.attacks if trial.attack.label == "knn")
    left = [trial for trial in suite.attacks if trial.attack.label != "knn"]
    save_suite(Suite(suite.name, suite.description, suite.victims, tuple(left)), packed)
    pack(packed)
    assert store.record_name(gone.key) not in Archive(packed / "packed.zip").names
    for name in (store.record_name(gone.key), store.arrays_name(gone.key, "scores")):
        assert (packed / name).read_bytes() == (run / name).read_bytes()
    assert Store(packed).finished(gone.key)


def test_a_name_that_leads_out_of_the_folder_is_not_written(packed):
    """Packs come from others, too."""
    with ZipFile(packed / "packed.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name[0] != "m"}
    names = ("../records/ab.json", "records/../../ab.json", "records/ab.py")
    (packed / "packed.zip").write_bytes(archive_of(files | dict.fromkeys(names, b"{}")))
    before = set(packed.parent.rglob("*.*"))
    pack(packed)
    assert set(packed.parent.rglob("*.*")) == before


@pytest.mark.slow
def test_a_packed_run_is_done_and_a_new_record_counts(packed, here):
    assert "0 to run" in here("run", "smoke", "--out", packed, "--dry-run").stdout
    store, suite = Store(packed), read_suite(packed)
    trial = suite.attacks[0]
    store.write(failure(trial, "by hand"))
    assert "1 failed" in here("status", packed).stdout
    pack(packed)
    assert Store(packed).read(trial.key).error == "by hand"
    assert not list((packed / "records").iterdir())
    assert here("rerun", packed, "--failed", "--workers", 1).returncode == 0
    assert Store(packed).attack(trial.key)


NONE = ("smoke", "--only", "defense=none", "--workers", 1)


@pytest.mark.slow
def test_a_pack_goes_on_without_weights(packed, here):
    """Where it was made: the victim comes out as before, so that what was finished counts."""
    shutil.rmtree(packed / "victims")
    again = (*NONE, "--only", "attack=gmm", "--set", "attack_seeds=2", "--out", packed)
    assert "2 to run" in here("run", *again, "--dry-run").stdout  # the victim, and a second fit
    done = here("run", *again)
    assert (done.returncode, done.stderr) == (0, "")
    suite, store = read_suite(packed), Store(packed)
    states = survey(suite, store)
    assert {states[trial.key].state for trial in suite.victims} == {"done"}
    fits = [trial for trial in suite.attacks if trial.attack.label == "gmm"]
    assert [states[trial.key].state for trial in fits[:2]] == ["done", "done"]


@pytest.mark.slow
def test_other_attacks_run_on_packed_weights_without_training(packed, here, tmp_path):
    """What somebody sent, in two files."""
    assert "victims are in" in here("pack", packed, "--weights").stdout
    sent = tmp_path / "sent"
    sent.mkdir()
    for name in ("packed.zip", "weights.zip"):
        shutil.copyfile(packed / name, sent / name)
    again = (*NONE, "--only", "attack=gmm", "--set", "attack_seeds=2", "--out", sent)
    assert "1 to run" in here("run", *again, "--dry-run").stdout
    done = here("run", *again)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (sent / "victims").exists()
    suite = read_suite(sent)
    states = survey(suite, Store(sent), deep=True)
    fits = [trial for trial in suite.attacks if trial.attack.label == "gmm"]
    assert [states[trial.key].state for trial in fits[:2]] == ["done", "done"]
    assert pack_weights(sent) == len(Archive(packed / "weights.zip").names)


def test_weights_are_packed_beside_records_and_are_verified(packed):
    suite, store = read_suite(packed), Store(packed)
    one, *others = suite.victims
    store.victim_path(one.key).unlink()
    assert pack_weights(packed) == len(others)
    archive = Archive(packed / "weights.zip")
    assert archive.names == {store.victim_name(trial.key) for trial in others}
    shutil.rmtree(packed / "victims")  # those of an older pack stay in it
    assert pack_weights(packed) == len(others)
    sha256_of = store.victim(others[0].key).checkpoint_sha256
    assert sha256(store.weights(others[0].key, sha256_of)).hexdigest() == sha256_of
    with pytest.raises(DamagedError, match="No such file"):
        store.weights(one.key, sha256_of)
    (packed / "weights.zip").write_bytes(archive_of({store.victim_name(others[0].key): b"x"}))
    with pytest.raises(DamagedError, match="truncated or altered"):
        pack_weights(packed)
    (packed / "weights.zip").write_bytes(b"x")
    states = survey(Suite("", "", suite.victims, ()), store, deep=True)
    assert {each.state for each in states.values()} == {"done"}  # nobody needs them
    store.record_path(suite.attacks[0].key).write_text("{}")
    assert survey(suite, store, deep=True)[one.key].damage.path == packed / "weights.zip"
    (packed / "weights.zip").unlink()
    with pytest.raises(BenchError, match="holds no weights: smashbench trial KEY"):
        pack_weights(packed)


@pytest.mark.slow
def test_where_a_victim_comes_out_with_other_weights_its_attacks_are_done_again(copy, run, here):
    """As on another processor than that of the pack; the row is never of two trainings."""
    store, suite = Store(copy), read_suite(copy)
    victim = suite.victims[0]
    ours = [trial for trial in suite.attacks if trial.parent == victim.key]
    other = 64 * "a"
    store.write(store.victim(victim.key).model_copy(update={"checkpoint_sha256": other}))
    for trial in ours:
        record = store.attack(trial.key)
        store.write(record.model_copy(update={"victim_sha256": other, "flags": ["not_converged"]}))
    store.victim_path(victim.key).unlink()
    store.record_path(ours[0].key).unlink()
    done = here("run", *NONE, "--out", copy)
    assert done.returncode == 0
    assert f"{len(ours) - 1} finished trials are done again" in done.stderr
    for trial in (victim, *ours):
        assert store.read(trial.key).own_weights == Store(run).read(trial.key).own_weights
        assert store.read(trial.key).parent_weights == Store(run).read(trial.key).parent_weights
    assert (copy / "leaderboard.csv").read_bytes() == (run / "leaderboard.csv").read_bytes()


@pytest.mark.slow
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
    board = read(packed, run)
    for name in ("leaderboard", "records"):
        path = write_csv(FRAMES[name](board), tmp_path / f"{name}.csv")
        assert path.read_bytes() == (run / path.name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "head", "inside"])
def test_a_damaged_pack_is_named_and_its_trials_are_done_again(packed, run, here, damage):
    path = packed / "packed.zip"
    content = bytearray(path.read_bytes())
    if damage == "inside":
        content[len(content) // 2] ^= 1
    path.write_bytes(content[: {"cut": -10, "head": 5}.get(damage)])
    done = here("report", packed)
    assert done.returncode == 2
    assert "truncated or altered" in done.stderr
    state = here("status", packed).stdout
    assert "damaged" in state
    assert ("42 damaged" in state) == (damage != "inside")
    if damage == "inside":  # else it is a new run, which other tests end
        assert here("run", "smoke", "--out", packed, "--workers", 2).returncode == 0
        for name in TABLES[:2]:
            assert (packed / name).read_bytes() == (run / name).read_bytes()


def test_a_damaged_file_in_a_pack_costs_its_own_trial_alone(packed, run):
    suite, store = read_suite(packed), Store(packed)
    key, path = suite.attacks[0].key, packed / "packed.zip"
    name = store.record_name(key)
    with ZipFile(path) as archive:
        file = archive.getinfo(name)
    content = bytearray(path.read_bytes())
    content[file.header_offset + 30 + len(name) + file.compress_size // 2] ^= 1
    path.write_bytes(content)
    standings, damages = mend(suite, store)
    assert {each for each in standings if standings[each].state != "done"} == {key}
    reason = "truncated or altered in packed.zip"
    assert [(damage.path, damage.reason) for damage in damages] == [(packed / name, reason)]
    for place in (name, store.arrays_name(key, "scores")):  # as if it had been run again
        shutil.copy(run / place, packed / place)
    found = survey(suite, Store(packed), deep=True).values()
    assert {standing.state for standing in found} == {"done"}


@pytest.mark.slow
def test_every_flipped_bit_is_noticed_or_changes_nothing(tmp_path):
    """Whatever it turns the archive into: dates and the like may change, a file may not."""
    files = {"records/a.json": b'{"key": 1}', "scores/a": bytes(range(40)), "empty": b""}
    content, path = archive_of(files), tmp_path / "packed.zip"
    refused = 0
    for bit in range(8 * len(content)):
        altered = bytearray(content)
        altered[bit // 8] ^= 1 << bit % 8
        path.write_bytes(altered)
        try:
            archive = Archive(path)
            assert {name: archive.get(name) for name in files} == files, bit
            assert archive.get("other") is None
        except DamagedError:
            refused += 1
    assert refused > bit / 2


def test_the_same_files_are_the_same_archive_at_any_time(monkeypatch):
    files = {"a": b"1", "b": b"2"}
    before = archive_of(files)
    monkeypatch.setattr("time.localtime", lambda *_: time.gmtime(10**9))
    assert archive_of(files) == before


def test_a_folder_in_use_or_without_results_is_not_packed(copy, tmp_path):
    with (
        Store(copy).claim(read_suite(copy).victims[0].key),
        pytest.raises(BenchError, match="at work in"),
    ):
        pack(copy)
    assert list((copy / "records").iterdir())
    with pytest.raises(BenchError, match="no results folder"):
        pack(tmp_path)


def test_nothing_damaged_is_packed(copy):
    path = next((copy / "scores").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BenchError, match="truncated or altered"):
        pack(copy)
    assert not (copy / "packed.zip").exists()
