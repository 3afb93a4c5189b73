"""What is kept for measuring again, and what cannot be measured again."""

import shutil
from dataclasses import replace

import pytest

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.rows import read
from smashbench.bench.run.attempt import attempt
from smashbench.bench.run.engines import RunOptions
from smashbench.bench.run.execute import rescore
from smashbench.bench.run.status import status
from smashbench.bench.store.pack import pack
from smashbench.bench.store.packs import PACK
from smashbench.bench.store.store import Store
from smashbench.bench.suite.plugins import LOADED, in_use
from tests.plugged import METRIC, unplugged
from tests.rescored import TINY, again, metric, states
from tests.survivors import times

pytestmark = pytest.mark.usefixtures("clean")
SET = [word for setting in TINY for word in ("--set", setting)]


@pytest.mark.slow
def test_without_reconstructions_an_attack_is_made_anew_unless_it_is_to_be_kept(
    tiny, tiny_copy, tmp_path
):
    metric(tmp_path)
    again(tiny, tiny_copy)
    for path in (tiny_copy / "reconstructions").iterdir():
        path.unlink()
    with unplugged():
        LOADED.clear()
        del METRICS["mae"]
        metric(tmp_path, METRIC.replace(".mean(1)", ".mean(1) / 2"))
        victims, attacks = ["unscored"] * 2, ["outdated"] * 4
        assert states(tiny, tiny_copy) == victims + attacks
        assert states(tiny, tiny_copy, keep=True) == victims + ["kept"] * 4
        before = times(tiny_copy)
        again(tiny, tiny_copy, keep=True)
        changed = {name for name, time in times(tiny_copy).items() if time != before[name]}
        assert changed == {f"{trial.key}.json" for trial in tiny.victims}


@pytest.mark.slow
def test_a_new_metric_outdates_nothing_that_cannot_be_scored_again(tiny, tiny_copy, tmp_path):
    """A pack of last year's is finished as it is; the table says what it lacks."""
    for path in (tiny_copy / "reconstructions").iterdir():
        path.unlink()
    metric(tmp_path)
    assert states(tiny, tiny_copy) == ["unscored"] * 2 + ["done"] * 4
    again(tiny, tiny_copy)
    assert set(states(tiny, tiny_copy)) == {"done"}
    board = read(tiny_copy)
    assert "mae" not in board.metrics
    assert len(board.complete) == 2


def test_a_damaged_reconstruction_is_no_reconstruction(tiny, tiny_copy, tmp_path):
    key = tiny.attacks[0].key
    (tiny_copy / "reconstructions" / f"{key}.safetensors").write_bytes(b"x")
    assert set(states(tiny, tiny_copy)) == {"done"}  # nobody needs them
    metric(tmp_path)
    assert states(tiny, tiny_copy)[2:] == ["done"] + ["unscored"] * 3


@pytest.mark.slow
def test_packs_hold_reconstructions_where_they_are_asked_for(tiny, tiny_copy, tmp_path):
    size = {}
    for whole in (False, True):
        pack(tiny_copy, reconstructions=whole)
        size[whole] = (tiny_copy / PACK).stat().st_size
        there = list((tiny_copy / "reconstructions").iterdir())
        assert bool(there) != whole
    assert size[True] > size[False]
    metric(tmp_path)
    assert set(states(tiny, tiny_copy)) == {"unscored"}
    again(tiny, tiny_copy)
    assert set(states(tiny, tiny_copy)) == {"done"}


def test_what_other_code_made_is_not_measured_again_by_the_present_one(tiny, tiny_copy, tmp_path):
    """An accuracy would be one of weights of one code and releases of another."""
    store = Store(tiny_copy)
    record = store.victim(tiny.victims[0].key)
    assert record
    store.write(record.model_copy(update={"source": "0" * 16}))
    metric(tmp_path)
    assert states(tiny, tiny_copy)[0] == "outdated"
    assert states(tiny, tiny_copy, keep=True)[0] == "kept"


def test_status_calls_kept_only_what_somebody_wanted_kept(tiny, tiny_copy):
    """Two attacks of other source, of which one was to be kept."""
    store, (first, second) = Store(tiny_copy), tiny.attacks[:2]
    for trial in (first, second):
        record = store.attack(trial.key)
        assert record
        store.write(record.model_copy(update={"source": "0" * 16}))
    for kept, expected in (
        ({first.key}, ": 4 done, 1 kept, 1 outdated"),
        ({first.key, second.key}, ": 4 done, 2 kept"),
        (set(), ": 4 done, 2 outdated"),
    ):
        lines = status(
            replace(tiny, of_other_code=frozenset(kept), kept=frozenset(kept)), tiny_copy
        ).splitlines()
        assert lines[0].endswith(expected)


@pytest.mark.slow
def test_what_is_kept_on_request_is_flagged(tiny, tiny_copy, here):
    """As if the code of the noise had changed since."""
    store = Store(tiny_copy)
    for trial in tiny.trials:
        if trial.victim.defense.label == "noise" and trial.parent is None:
            record = store.victim(trial.key)
            assert record
            store.write(record.model_copy(update={"source": "0" * 16}))
    assert "3 outdated" in here("status", tiny_copy).stdout
    done = here("rerun", tiny_copy, "--keep-outdated", "--workers", 1)
    assert done.returncode == 0
    assert "1 kept" in here("status", tiny_copy).stdout
    flags = read(tiny_copy).to_frame().set_index("defense")["flags"]
    assert "outdated" in flags["noise"]
    assert "outdated" not in flags["none"]
    assert here("run", "smoke", *SET, "--only", "defense=none", "--out", tiny_copy).returncode == 0
    assert "outdated" in read(tiny_copy).to_frame().set_index("defense")["flags"]["noise"]
    said = here("status", tiny_copy).stdout  # this time nobody wanted anything kept
    assert "3 outdated" in said
    assert "all that is left" in said
    assert here("rerun", tiny_copy, "--workers", 1).returncode == 0
    assert "outdated" not in read(tiny_copy).to_frame().set_index("defense")["flags"]["noise"]


@pytest.mark.slow
def test_a_pack_with_reconstructions_is_measured_again_without_weights(tiny, tiny_copy, tmp_path):
    """As it was sent: nothing else is there."""
    pack(tiny_copy, reconstructions=True)
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copyfile(tiny_copy / "packed.zip", alone / "packed.zip")
    metric(tmp_path)
    for trial in tiny.attacks:
        assert attempt(trial, folder=alone, data=None, minutes=5).state == "done"
        record = Store(alone).attack(trial.key)
        assert record
        assert record.metrics["mae"].mean > 0
    assert "unscored" not in states(tiny, alone)
    assert read(alone).to_frame()["worst_mae"].notna().all()


def test_a_metric_that_does_not_fit_in_memory_loses_no_attack(tiny, tiny_copy, tmp_path):
    """What was attacked stays; only the attack itself may be left out for its size."""
    huge = "from smashbench.attacks.base import require_memory\n" + METRIC.replace(
        "    return (x", "    require_memory(10**18, 'the metric')\n    return (x"
    )
    metric(tmp_path, huge)
    trial = tiny.attacks[0]
    before = Store(tiny_copy).attack(trial.key)
    done = attempt(trial, folder=tiny_copy, data=None, minutes=5)
    assert done.state == "unscored"
    assert "the metric" in done.text
    assert Store(tiny_copy).attack(trial.key) == before


@pytest.mark.slow
def test_what_a_metric_cannot_measure_any_more_is_counted(tiny, tiny_copy, tmp_path):
    """A folder without reconstructions, and a metric of somebody's own: victims need none."""
    for path in (tiny_copy / "reconstructions").iterdir():
        path.unlink()
    metric(tmp_path)
    suite = replace(tiny, plugins=in_use(tiny))
    text, missed = rescore(suite, RunOptions(tiny_copy, workers=1))
    assert text.startswith("2 of 6 trials measured again; 4 lack a metric, and what they made")
    assert missed == 4
