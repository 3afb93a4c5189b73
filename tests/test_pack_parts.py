"""Records and scores in several files, where there is much."""

import shutil

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.run.attempt import failure
from smashbench.bench.run.survey import mend, survey
from smashbench.bench.store import pack as packing
from smashbench.bench.store.archive import Archive
from smashbench.bench.store.files import write_whole
from smashbench.bench.store.packs import PACK, packs_in, parts_in
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store
from smashbench.bench.submitting.check import check

LIMIT = 12_000
OTHER = {"device": "other"}


@pytest.fixture
def packed(copy, monkeypatch):
    monkeypatch.setattr(packing, "LIMIT", LIMIT)
    packing.pack(copy)
    return copy


def contents(folder):
    return {name: (folder / name).read_bytes() for name in packs_in(folder)}


def sizes(path):
    archive = Archive(path)
    return [len(archive.get(name)) for name in archive.names]


def states(folder):
    found = survey(read_suite(folder), Store(folder), deep=True).values()
    return {standing.state for standing in found}


def test_no_part_is_larger_than_the_limit_and_every_file_is_in_one(packed, run):
    parts = parts_in(packed)
    assert len(parts) > 1
    for part in parts:
        each = sizes(packed / part)
        assert sum(each) <= LIMIT or len(each) == 1
    names = [name for pack in packs_in(packed) for name in Archive(packed / pack).names]
    assert len(names) == len(set(names))
    store = Store(packed)
    assert store.packed_names() == set(names)
    for path in [*(run / "records").iterdir(), *(run / "scores").iterdir()]:
        assert store.content(f"{path.parent.name}/{path.name}") == path.read_bytes()
    assert states(packed) == {"done"}


def test_parts_stay_as_they_are_when_more_is_packed(packed):
    """So that a repository of results grows by what is new."""
    before = contents(packed)
    packing.pack(packed)
    assert contents(packed) == before
    key = read_suite(packed).attacks[-1].key
    holder = next(n for n in before if Store(packed).record_name(key) in Archive(packed / n).names)
    store = Store(packed)
    store.write(failure(read_suite(packed).attacks[-1], "by hand"))
    packing.pack(packed)
    after = contents(packed)
    changed = {name for name in before if after.get(name) != before[name]}
    assert changed <= {holder, PACK}
    assert Store(packed).read(key).error == "by hand"
    assert not list((packed / "records").iterdir())


@pytest.mark.parametrize("kept", range(3))
def test_a_pack_that_is_killed_loses_nothing(packed, monkeypatch, kept):
    """After any number of the files that it writes."""
    store, suite = Store(packed), read_suite(packed)
    for trial in suite.trials:
        store.write(store.finished(trial.key).model_copy(update={"machine": OTHER}))
    before = packs_in(packed)
    written = []

    def killed(path, content):
        if len(written) == kept:
            raise KeyboardInterrupt
        written.append(path)
        write_whole(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(packing, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            packing.pack(packed)
    assert len(written) == kept
    for again in (False, True):
        if again:
            packing.pack(packed)
        assert states(packed) == {"done"}
        assert all(Store(packed).finished(trial.key).machine == OTHER for trial in suite.trials)
    assert not set(before) & set(parts_in(packed))


def test_a_damaged_part_costs_its_own_trials_alone(packed, run):
    part = packed / parts_in(packed)[0]
    lost = {name.split("/")[1].split(".")[0] for name in Archive(part).names}
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(BenchError, match=rf"{part.name}: truncated or altered"):
        packing.pack(packed)
    suite = read_suite(packed)
    standings, _ = mend(suite, Store(packed))
    again = [trial for trial in suite.trials if standings[trial.key].state != "done"]
    assert 0 < len(again) < len(suite.trials)
    assert all({trial.key, trial.parent} & lost for trial in again)
    for key in lost:  # as if these had been run again
        for place in (Store(run).record_name(key), Store(run).arrays_name(key, "scores")):
            shutil.copy(run / place, packed / place)
    assert states(packed) == {"done"}


@pytest.mark.slow
def test_a_submission_has_all_its_parts(packed):
    assert not [each for each in check(packed / PACK) if each.kind == "PROBLEM"]
    part = packed / parts_in(packed)[-1]
    part.write_bytes(part.read_bytes()[:-9])
    assert [each.kind for each in check(packed / PACK)] == ["PROBLEM"]
    part.unlink()
    assert "PROBLEM" in [each.kind for each in check(packed / PACK)]


def test_what_is_written_while_packs_are_made_stays(copy, monkeypatch):
    """A run that began after the look for one writes a newer record: it counts, and is kept."""
    store, trial = Store(copy), read_suite(copy).attacks[0]
    written = []

    def writing(path, content):
        write_whole(path, content)
        if not written and path.name.startswith(PACK.partition(".")[0]):
            written.append(path.name)
            store.write(failure(trial, "newer"))

    monkeypatch.setattr(packing, "write_whole", writing)
    packing.pack(copy)
    assert written
    assert [path.stem for path in (copy / "records").iterdir()] == [trial.key]
    assert Store(copy).read(trial.key).error == "newer"
