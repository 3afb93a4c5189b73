"""Metrics that change: what was made is measured again, and nothing is made again."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.rows import read
from smashbench.bench.run.attempt import attempt
from smashbench.bench.run.perform import load_data
from smashbench.bench.run.status import status
from smashbench.bench.run.survey import survey
from smashbench.bench.store.pack import pack
from smashbench.bench.store.record import AttackRecord
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml
from smashbench.bench.suite.plugins import LOADED
from smashbench.bench.suite.trial import Suite
from tests.plugged import METRIC, plug, unplugged
from tests.survivors import times

pytestmark = pytest.mark.usefixtures("clean")
TINY = (
    "dataset={use='photos',train=100,val=20,aux=100,test=40}",
    "training.epochs=1",
    "seeds=[0]",
    "defenses={none={},noise={strengths=[0.3]}}",
    "attacks={mean={},gmm={components=[2],draws=1}}",
)
SET = [word for setting in TINY for word in ("--set", setting)]
HALF_A_STEP = 0.5 / 255


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A small finished run. Tests must not change it."""
    folder = tmp_path_factory.mktemp("made")
    suite = toml.load("smoke", TINY)
    save_suite(suite, folder)
    again(suite, folder)
    return folder


@pytest.fixture
def mine(made, tmp_path) -> Iterator[Path]:
    for path in made.rglob("*.*"):
        copy = tmp_path / "mine" / path.relative_to(made)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path / "mine"


@pytest.fixture
def suite() -> Suite:
    return toml.load("smoke", TINY)


def again(suite: Suite, folder: Path, *, keep: bool = False) -> None:
    for trial in suite.trials:
        done = attempt(trial, folder=folder, data=None, minutes=5, keep=keep)
        assert done.state == "done", done


def states(suite: Suite, folder: Path, **options) -> list[str]:
    found = survey(suite, Store(folder), deep=True, **options)
    return [found[trial.key].state for trial in suite.trials]


def metric(tmp_path: Path, source: str = METRIC) -> None:
    path = tmp_path / "mae.py"
    path.write_text(source)
    plug([path])


@pytest.mark.slow
def test_a_new_metric_is_computed_from_what_is_kept_and_nothing_else_moves(suite, mine, tmp_path):
    """Its values lie within half a grey level of those of a run that had it from the start."""
    before = {path.stem: load_file(path) for path in (mine / "scores").iterdir()}
    untouched = {n: times_of(mine / n) for n in ("victims", "reconstructions")}
    plain = read(mine).to_frame().drop(columns="flags")
    metric(tmp_path)
    assert set(states(suite, mine)) == {"unscored"}
    again(suite, mine)
    assert set(states(suite, mine)) == {"done"}
    assert untouched == {n: times_of(mine / n) for n in untouched}
    pandas_equal(read(mine).to_frame()[plain.columns], plain)
    again(suite, tmp_path / "fresh")
    for trial in suite.attacks:
        scores, fresh = (
            load_file(folder / "scores" / f"{trial.key}.safetensors")
            for folder in (mine, tmp_path / "fresh")
        )
        assert {n: v.tolist() for n, v in scores.items() if n != "mae"} == {
            n: v.tolist() for n, v in before[trial.key].items()
        }
        assert np.abs(scores["mae"] - fresh["mae"]).max() < HALF_A_STEP
        assert not np.array_equal(scores["mae"], fresh["mae"])
        record = Store(mine).attack(trial.key)
        assert record
        assert record.rescored == ["mae"]
        assert record.metrics["mae"].mean == pytest.approx(scores["mae"].mean(), rel=1e-5)
    for trial in suite.victims:
        ours, theirs = (Store(f).victim(trial.key) for f in (mine, tmp_path / "fresh"))
        assert ours
        assert theirs
        assert ours.metrics == theirs.metrics
        assert ours.floors == theirs.floors
        assert "mae" in ours.floors["mean_image"]
        assert ours.history == theirs.history


def pandas_equal(ours, theirs) -> None:
    for name in theirs.columns:
        np.testing.assert_array_equal(ours[name].to_numpy(), theirs[name].to_numpy(), name)


def times_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_the_8_bits_are_those_of_the_reconstructions(suite, made):
    """Errors computed from them by hand are the recorded ones, up to rounding."""
    split = load_data(suite.victims[0].victim.dataset, None, torch.device("cpu"))
    for trial in suite.attacks:
        path = Path("reconstructions", f"{trial.key}.safetensors")
        (images,) = load_file(made / path).values()
        assert images.dtype == np.uint8
        error = np.square(images / 255 - split.test.x.numpy().astype(np.float64)).mean((1, 2, 3))
        recorded = load_file(made / "scores" / path.name)["mse"]
        np.testing.assert_allclose(error, recorded, rtol=0, atol=2 * HALF_A_STEP)
        assert abs(error.mean() - recorded.mean()) < 5e-6


@pytest.mark.slow
def test_a_changed_metric_alone_is_computed_anew(suite, mine, tmp_path):
    metric(tmp_path)
    again(suite, mine)
    key = suite.attacks[1].key
    first = load_file(mine / "scores" / f"{key}.safetensors")
    with unplugged():
        LOADED.clear()
        del METRICS["mae"]
        metric(tmp_path, METRIC.replace(".mean(1)", ".mean(1) / 2"))
        assert set(states(suite, mine)) == {"unscored"}
        again(suite, mine)
        second = load_file(mine / "scores" / f"{key}.safetensors")
        np.testing.assert_allclose(second["mae"], first["mae"] / 2)
        assert second["mse"].tolist() == first["mse"].tolist()


def test_damaged_scores_of_a_victim_are_measured_again_and_of_an_attack_made_again(
    suite, mine, made, refused
):
    """To the last byte both: a victim from its weights, an attack from the start, since its scores
    were not of 8 bits."""
    attack, victim = suite.attacks[1].key, suite.victims[0].key
    for key in (attack, victim):
        path = mine / "scores" / f"{key}.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    refused(["report", mine], "truncated or altered")
    found = dict(zip((t.key for t in suite.trials), states(suite, mine), strict=True))
    assert found.pop(attack) == "damaged"
    assert found.pop(victim) == "unscored"
    assert set(found.values()) == {"done"}
    trained = times_of(mine / "victims")
    again(suite, mine)
    assert times_of(mine / "victims") == trained
    for key in (attack, victim):
        name = Path("scores", f"{key}.safetensors")
        assert (mine / name).read_bytes() == (made / name).read_bytes()


@pytest.mark.slow
def test_a_kill_between_scores_and_record_of_a_rescore_is_mended(suite, mine, tmp_path):
    """The scores are new, the record still says how it was scored before."""
    key = suite.attacks[1].key
    metric(tmp_path)
    path = mine / "scores" / f"{key}.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert set(states(suite, mine)) == {"unscored"}
    before = load_file(mine / "reconstructions" / f"{key}.safetensors")
    again(suite, mine)
    assert set(states(suite, mine)) == {"done"}
    scored = {name for name, each in METRICS.items() if each.score}
    assert set(Store(mine).attack(key).rescored) == scored
    assert before.keys() == {"reconstructions"}


@pytest.mark.slow
def test_without_reconstructions_an_attack_is_made_anew_unless_it_is_to_be_kept(
    suite, mine, tmp_path, here
):
    metric(tmp_path)
    again(suite, mine)
    for path in (mine / "reconstructions").iterdir():
        path.unlink()
    with unplugged():
        LOADED.clear()
        del METRICS["mae"]
        metric(tmp_path, METRIC.replace(".mean(1)", ".mean(1) / 2"))
        victims, attacks = ["unscored"] * 2, ["outdated"] * 4
        assert states(suite, mine) == victims + attacks
        assert states(suite, mine, keep=True) == victims + ["kept"] * 4
        before = times(mine)
        again(suite, mine, keep=True)
        changed = {name for name, time in times(mine).items() if time != before[name]}
        assert changed == {f"{trial.key}.json" for trial in suite.victims}


@pytest.mark.slow
def test_a_new_metric_outdates_nothing_that_cannot_be_scored_again(suite, mine, tmp_path):
    """A pack of last year's is finished as it is; the table says what it lacks."""
    for path in (mine / "reconstructions").iterdir():
        path.unlink()
    metric(tmp_path)
    assert states(suite, mine) == ["unscored"] * 2 + ["done"] * 4
    again(suite, mine)
    assert set(states(suite, mine)) == {"done"}
    board = read(mine)
    assert "mae" not in board.metrics
    assert len(board.complete) == 2


def test_a_damaged_reconstruction_is_no_reconstruction(suite, mine, tmp_path):
    key = suite.attacks[0].key
    (mine / "reconstructions" / f"{key}.safetensors").write_bytes(b"x")
    assert set(states(suite, mine)) == {"done"}  # nobody needs them
    metric(tmp_path)
    assert states(suite, mine)[2:] == ["done"] + ["unscored"] * 3


def test_a_metric_that_fails_costs_no_record(suite, mine, tmp_path):
    metric(tmp_path, METRIC.replace("return (x", "raise ValueError('too dark')\n    return (x"))
    again(Suite("", "", (), ()), mine)
    before = times(mine)
    for trial in (suite.victims[0], suite.attacks[0]):
        done = attempt(trial, folder=mine, data=None, minutes=5, keep=True)
        assert done.state == "stop"
    assert "could not be scored again (ValueError: too dark)" in attempted(suite, mine)
    assert times(mine) == before
    assert len(read(mine).complete) == 2


def attempted(suite: Suite, folder: Path) -> str:
    return attempt(suite.victims[1], folder=folder, data=None, minutes=5).text


@pytest.mark.slow
def test_packs_hold_reconstructions_where_they_are_asked_for(suite, mine, tmp_path):
    size = {}
    for whole in (False, True):
        pack(mine, reconstructions=whole)
        size[whole] = (mine / Store.PACK).stat().st_size
        there = list((mine / "reconstructions").iterdir())
        assert bool(there) != whole
    assert size[True] > size[False]
    metric(tmp_path)
    assert set(states(suite, mine)) == {"unscored"}
    again(suite, mine)
    assert set(states(suite, mine)) == {"done"}


@pytest.mark.slow
def test_records_that_do_not_agree_on_a_metric_are_not_compared(suite, mine, tmp_path):
    metric(tmp_path)
    again(Suite("", "", suite.victims, suite.attacks[:2]), mine)
    read(mine)  # one that only some have is a column that only some have
    path = mine / "records" / f"{suite.attacks[0].key}.json"
    store = Store(mine)
    record = store.attack(suite.attacks[0].key)
    assert isinstance(record, AttackRecord)
    path.unlink()
    store.write(record.model_copy(update={"scoring": record.scoring | {"mse": "0" * 16}}))
    with pytest.raises(BenchError, match="do not agree on the code of mse"):
        read(mine)


def test_what_other_code_made_is_not_measured_again_by_the_present_one(suite, mine, tmp_path):
    """An accuracy would be one of weights of one code and releases of another."""
    store = Store(mine)
    record = store.victim(suite.victims[0].key)
    assert record
    store.write(record.model_copy(update={"source": "0" * 16}))
    metric(tmp_path)
    assert states(suite, mine)[0] == "outdated"
    assert states(suite, mine, keep=True)[0] == "kept"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((".mean(1)", ".mean()"), r"metric 'mae' gives \(\) instead of \(40,\) values"),
        ((".mean(1)", ".mean(1).tolist()"), "metric 'mae' gives list"),
        ((".mean(1)", ".mean(1) * float('nan')"), "gives values .nan, nan. outside"),
        ((".mean(1)", ".mean(1) + 7"), r"outside \[0, 1\]"),
    ],
)
def test_a_metric_that_gives_nonsense_is_refused_before_anything_is_written(
    suite, mine, tmp_path, changes, words
):
    metric(tmp_path, METRIC.replace(*changes))
    before = times_of(mine / "scores")
    assert re.search(words, attempted(suite, mine))
    assert times_of(mine / "scores") == before


def test_a_metric_that_works_in_place_changes_no_other(suite, mine, tmp_path):
    plain = read(mine).to_frame()["worst_mse"].tolist()
    metric(
        tmp_path, METRIC.replace("return (x", "x.round_(); guess.clamp_(0.2, 0.3)\n    return (x")
    )
    again(suite, mine)
    assert read(mine).to_frame()["worst_mse"].tolist() == plain


@pytest.mark.slow
def test_the_command_rescores_in_workers_and_reports(mine, tmp_path, here):
    path = tmp_path / "mae.py"
    path.write_text(METRIC)
    done = here("rescore", mine, "--plugin", path, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "6 of 6 trials measured again" in done.stdout
    assert "worst_mae" in (mine / "leaderboard.csv").read_text()
    assert (mine / "tradeoff_mae.png").is_file()
    assert json.loads((mine / "suite.json").read_text())["plugins"][0]["name"] == "mae.py"
    assert "0 of 6" in here("rescore", mine, "--plugin", path).stdout


def test_status_calls_kept_only_what_somebody_wanted_kept(suite, mine):
    """Two attacks of other source, of which one was to be kept."""
    store, (first, second) = Store(mine), suite.attacks[:2]
    for trial in (first, second):
        record = store.attack(trial.key)
        assert record
        store.write(record.model_copy(update={"source": "0" * 16}))
    for kept, expected in (
        ({first.key}, ": 4 done, 1 kept, 1 outdated"),
        ({first.key, second.key}, ": 4 done, 2 kept"),
        (set(), ": 4 done, 2 outdated"),
    ):
        lines = status(replace(suite, kept=frozenset(kept)), mine).splitlines()
        assert lines[0].endswith(expected)


@pytest.mark.slow
def test_what_is_kept_on_request_is_flagged(suite, mine, here):
    """As if the code of the noise had changed since."""
    store = Store(mine)
    for trial in suite.trials:
        if trial.victim.defense.label == "noise" and trial.parent is None:
            record = store.victim(trial.key)
            assert record
            store.write(record.model_copy(update={"source": "0" * 16}))
    assert "3 outdated" in here("status", mine).stdout
    done = here("rerun", mine, "--keep-outdated", "--workers", 1)
    assert done.returncode == 0
    assert "1 kept" in here("status", mine).stdout
    flags = read(mine).to_frame().set_index("defense")["flags"]
    assert "outdated" in flags["noise"]
    assert "outdated" not in flags["none"]
    assert here("run", "smoke", *SET, "--only", "defense=none", "--out", mine).returncode == 0
    assert "outdated" in read(mine).to_frame().set_index("defense")["flags"]["noise"]
    assert here("rerun", mine, "--workers", 1).returncode == 0
    assert "outdated" not in read(mine).to_frame().set_index("defense")["flags"]["noise"]


@pytest.mark.slow
def test_a_pack_with_reconstructions_is_measured_again_without_weights(suite, mine, tmp_path):
    """As it was sent: nothing else is there."""
    pack(mine, reconstructions=True)
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copyfile(mine / "packed.zip", alone / "packed.zip")
    metric(tmp_path)
    for trial in suite.attacks:
        assert attempt(trial, folder=alone, data=None, minutes=5).state == "done"
        record = Store(alone).attack(trial.key)
        assert record
        assert record.metrics["mae"].mean > 0
    assert "unscored" not in states(suite, alone)
    assert read(alone).to_frame()["worst_mae"].notna().all()
