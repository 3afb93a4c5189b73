"""Metrics that change: what was made is measured again, and nothing is made again."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.rows import read
from smashbench.bench.run.attempt import attempt
from smashbench.bench.run.measure_again import measure_again
from smashbench.bench.run.perform import load_data
from smashbench.bench.store.record import AttackRecord
from smashbench.bench.store.store import Store
from smashbench.bench.suite.plugins import LOADED
from smashbench.bench.suite.trial import Suite
from tests.plugged import METRIC, unplugged
from tests.rescored import again, metric, states
from tests.survivors import times

pytestmark = pytest.mark.usefixtures("clean")
HALF_A_STEP = 0.5 / 255


@pytest.mark.slow
def test_a_new_metric_is_computed_from_what_is_kept_and_nothing_else_moves(
    tiny, tiny_copy, tmp_path
):
    """Its values lie within half a grey level of those of a run that had it from the start."""
    before = {path.stem: load_file(path) for path in (tiny_copy / "scores").iterdir()}
    untouched = {n: times_of(tiny_copy / n) for n in ("victims", "reconstructions")}
    plain = read(tiny_copy).to_frame().drop(columns="flags")
    metric(tmp_path)
    assert set(states(tiny, tiny_copy)) == {"unscored"}
    again(tiny, tiny_copy)
    assert set(states(tiny, tiny_copy)) == {"done"}
    assert untouched == {n: times_of(tiny_copy / n) for n in untouched}
    pd.testing.assert_frame_equal(read(tiny_copy).to_frame()[plain.columns], plain)
    again(tiny, tmp_path / "fresh")
    for trial in tiny.attacks:
        scores, fresh = (
            load_file(folder / "scores" / f"{trial.key}.safetensors")
            for folder in (tiny_copy, tmp_path / "fresh")
        )
        assert {n: v.tolist() for n, v in scores.items() if n != "mae"} == {
            n: v.tolist() for n, v in before[trial.key].items()
        }
        assert np.abs(scores["mae"] - fresh["mae"]).max() < HALF_A_STEP
        assert not np.array_equal(scores["mae"], fresh["mae"])
        record = Store(tiny_copy).attack(trial.key)
        assert record
        assert record.rescored == ["mae"]
        assert record.metrics["mae"].mean == pytest.approx(scores["mae"].mean(), rel=1e-5)
    for trial in tiny.victims:
        ours, theirs = (Store(f).victim(trial.key) for f in (tiny_copy, tmp_path / "fresh"))
        assert ours
        assert theirs
        assert ours.metrics == theirs.metrics
        assert ours.floors == theirs.floors
        assert "mae" in ours.floors["mean_image"]
        assert ours.history == theirs.history


def times_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_the_8_bits_are_those_of_the_reconstructions(tiny, tiny_run):
    """Errors computed from them by hand are the recorded ones, up to rounding."""
    split = load_data(tiny.victims[0].victim.dataset, None, torch.device("cpu"))
    for trial in tiny.attacks:
        path = Path("reconstructions", f"{trial.key}.safetensors")
        (images,) = load_file(tiny_run / path).values()
        assert images.dtype == np.uint8
        error = np.square(images / 255 - split.test.x.numpy().astype(np.float64)).mean((1, 2, 3))
        recorded = load_file(tiny_run / "scores" / path.name)["mse"]
        np.testing.assert_allclose(error, recorded, rtol=0, atol=2 * HALF_A_STEP)
        assert abs(error.mean() - recorded.mean()) < 5e-6


@pytest.mark.slow
def test_a_changed_metric_alone_is_computed_anew(tiny, tiny_copy, tmp_path):
    metric(tmp_path)
    again(tiny, tiny_copy)
    key = tiny.attacks[1].key
    first = load_file(tiny_copy / "scores" / f"{key}.safetensors")
    with unplugged():
        LOADED.clear()
        del METRICS["mae"]
        metric(tmp_path, METRIC.replace(".mean(1)", ".mean(1) / 2"))
        assert set(states(tiny, tiny_copy)) == {"unscored"}
        again(tiny, tiny_copy)
        second = load_file(tiny_copy / "scores" / f"{key}.safetensors")
        np.testing.assert_allclose(second["mae"], first["mae"] / 2)
        assert second["mse"].tolist() == first["mse"].tolist()


def test_damaged_scores_of_a_victim_are_measured_again_and_of_an_attack_made_again(
    tiny, tiny_copy, tiny_run, refused
):
    """To the last byte both: a victim from its weights, an attack from the start, since its scores
    were not of 8 bits."""
    attack, victim = tiny.attacks[1].key, tiny.victims[0].key
    for key in (attack, victim):
        path = tiny_copy / "scores" / f"{key}.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    refused(["report", tiny_copy], "truncated or altered")
    found = dict(zip((t.key for t in tiny.trials), states(tiny, tiny_copy), strict=True))
    assert found.pop(attack) == "damaged"
    assert found.pop(victim) == "unscored"
    assert set(found.values()) == {"done"}
    trained = times_of(tiny_copy / "victims")
    again(tiny, tiny_copy)
    assert times_of(tiny_copy / "victims") == trained
    for key in (attack, victim):
        name = Path("scores", f"{key}.safetensors")
        assert (tiny_copy / name).read_bytes() == (tiny_run / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("written", [False, True])
def test_a_kill_around_the_record_of_a_rescore_costs_no_bit(
    written, tiny, tiny_copy, tmp_path, monkeypatch
):
    """The new scores are there, and the record still says how it was scored before; or the record
    is new, and the scores are not in their place."""
    key = tiny.attacks[1].key
    before = load_file(tiny_copy / "scores" / f"{key}.safetensors")
    metric(tmp_path)
    write = Store.write

    def killed(store: Store, record: AttackRecord) -> None:
        if written:
            write(store, record)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "write", killed)
    split = load_data(tiny.victims[0].victim.dataset, None, torch.device("cpu"))
    with pytest.raises(KeyboardInterrupt):
        measure_again(tiny.attacks[1], Store(tiny_copy), split)
    monkeypatch.undo()
    assert ("mae" in Store(tiny_copy).attack(key).scoring) == written
    assert "damaged" not in states(tiny, tiny_copy)
    again(tiny, tiny_copy)
    assert set(states(tiny, tiny_copy)) == {"done"}
    scores = load_file(tiny_copy / "scores" / f"{key}.safetensors")
    assert scores.pop("mae").shape == before["mse"].shape
    assert {name: each.tolist() for name, each in scores.items()} == {
        name: each.tolist() for name, each in before.items()
    }
    assert Store(tiny_copy).attack(key).rescored == ["mae"]
    assert not [*tiny_copy.glob("*/*.next")]


@pytest.mark.slow
def test_scores_that_are_damaged_beside_a_changed_metric_are_those_of_8_bits(
    tiny, tiny_copy, tmp_path
):
    key = tiny.attacks[1].key
    metric(tmp_path)
    path = tiny_copy / "scores" / f"{key}.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert set(states(tiny, tiny_copy)) == {"unscored"}
    again(tiny, tiny_copy)
    assert set(states(tiny, tiny_copy)) == {"done"}
    scored = {name for name, each in METRICS.items() if each.score}
    assert set(Store(tiny_copy).attack(key).rescored) == scored


@pytest.mark.slow
def test_a_metric_that_fails_costs_no_record(tiny, tiny_copy, tmp_path):
    metric(tmp_path, METRIC.replace("return (x", "raise ValueError('too dark')\n    return (x"))
    before = times(tiny_copy)
    for trial in (tiny.victims[0], tiny.attacks[0]):
        done = attempt(trial, folder=tiny_copy, data=None, minutes=5, keep=True)
        assert done.state == "unscored"
    assert "could not be scored again (ValueError: too dark)" in attempted(tiny, tiny_copy)
    assert times(tiny_copy) == before
    assert len(read(tiny_copy).complete) == 2


def attempted(suite: Suite, folder: Path) -> str:
    return attempt(suite.victims[1], folder=folder, data=None, minutes=5).text


@pytest.mark.slow
def test_records_that_do_not_agree_on_a_metric_are_not_compared(tiny, tiny_copy, tmp_path):
    metric(tmp_path)
    again(Suite("", "", tiny.victims, tiny.attacks[:2]), tiny_copy)
    read(tiny_copy)  # one that only some have is a column that only some have
    path = tiny_copy / "records" / f"{tiny.attacks[0].key}.json"
    store = Store(tiny_copy)
    record = store.attack(tiny.attacks[0].key)
    assert isinstance(record, AttackRecord)
    path.unlink()
    store.write(record.model_copy(update={"scoring": record.scoring | {"mse": "0" * 16}}))
    with pytest.raises(BenchError, match="do not agree on the code of mse"):
        read(tiny_copy)


@pytest.mark.slow
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
    tiny, tiny_copy, tmp_path, changes, words
):
    metric(tmp_path, METRIC.replace(*changes))
    before = times_of(tiny_copy / "scores")
    assert re.search(words, attempted(tiny, tiny_copy))
    assert times_of(tiny_copy / "scores") == before


@pytest.mark.slow
def test_a_metric_that_works_in_place_changes_no_other(tiny, tiny_copy, tmp_path):
    plain = read(tiny_copy).to_frame()["worst_mse"].tolist()
    metric(
        tmp_path, METRIC.replace("return (x", "x.round_(); guess.clamp_(0.2, 0.3)\n    return (x")
    )
    again(tiny, tiny_copy)
    assert read(tiny_copy).to_frame()["worst_mse"].tolist() == plain


@pytest.mark.slow
def test_the_command_rescores_in_workers_and_reports(tiny_copy, tmp_path, here):
    path = tmp_path / "mae.py"
    path.write_text(METRIC)
    done = here("rescore", tiny_copy, "--plugin", path, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "6 of 6 trials measured again" in done.stdout
    assert "worst_mae" in (tiny_copy / "leaderboard.csv").read_text()
    assert (tiny_copy / "tradeoff_mae.png").is_file()
    assert json.loads((tiny_copy / "suite.json").read_text())["plugins"][0]["name"] == "mae.py"
    assert "0 of 6" in here("rescore", tiny_copy, "--plugin", path).stdout
