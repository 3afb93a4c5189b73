"""What a survey of a results folder finds in its files."""

import pytest

from smashbench.bench.report.rows import read
from smashbench.bench.run.survey import survey
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store


def test_a_damaged_record_is_named(copy):
    path = next((copy / "records").glob("*.json"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedError, match=f"{path.name}: truncated or altered"):
        read(copy)
    standings = survey(read_suite(copy), Store(copy), deep=True)
    assert standings[path.stem].state == "damaged"
    assert standings[path.stem].damage.path == path


def test_what_is_missing_and_what_is_damaged_is_found_and_nothing_else(copy):
    suite, store = read_suite(copy), Store(copy)
    store.record_path(suite.attacks[-1].key).unlink()
    store.arrays_path(suite.attacks[0].key, "scores").write_bytes(b"")
    found = survey(suite, store, deep=True)
    states = {key: standing.state for key, standing in found.items() if standing.state != "done"}
    assert states == {suite.attacks[-1].key: "missing", suite.attacks[0].key: "damaged"}
    assert found[suite.attacks[0].key].damage.reason == "truncated or altered"


def test_pictures_that_are_altered_or_gone_are_damage(copy):
    suite, store = read_suite(copy), Store(copy)
    altered, gone = (store.arrays_path(trial.key, "samples") for trial in suite.attacks[:2])
    altered.write_bytes(altered.read_bytes()[:-1])
    gone.unlink()
    standings = survey(suite, store, deep=True)
    found = {standing.damage.path for standing in standings.values() if standing.damage}
    assert found == {altered, gone}
    shallow = survey(suite, store).values()
    assert {standing.state for standing in shallow} == {"done"}
