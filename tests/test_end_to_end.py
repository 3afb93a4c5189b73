"""The `smoke` suite through the command line."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from smashbench.bench.report.rows import read
from smashbench.bench.report.tables import write_csv
from smashbench.bench.run.survey import survey
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml as suite
from tests.commands import bench
from tests.survivors import same_as_uninterrupted

OUTPUTS = (
    "leaderboard.csv",
    "tradeoff_mse.png",
    "tradeoff_ssim.png",
    "reconstructions.png",
    "gallery.png",
    "leaderboard_by_defense.csv",
    "records.csv",
    "report.html",
)


def rows(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    with (folder / "leaderboard.csv").open() as stream:
        return {(row["defense"], row["strength"]): row for row in csv.DictReader(stream)}


def test_the_numbers_are_sane(run):
    table = rows(run)
    assert len(table) == 7
    for row in table.values():
        for name in ("accuracy", "worst_mse", "worst_ssim", "decoder_psnr", "gmm_fvu"):
            low, mean, high = (float(row[name + end]) for end in ("_low", "", "_high"))
            assert low <= mean <= high
        assert float(row["class_mean_mse"]) < float(row["mean_mse"])  # floors in order
        assert float(row["mean_fvu"]) == pytest.approx(1, abs=0.05)
        errors = {
            name: float(row[f"{name}_mse"])
            for name in ("mean", "class_mean", "gmm", "knn", "decoder")
        }
        assert row["worst_attack"] == min(errors, key=errors.get)
        assert float(row["worst_mse"]) == min(errors.values())
        assert int(row["payload"]) == 32 * 512
        assert (row["seeds"], row["missing_trials"]) == ("1", "0")
    none, weak, strong = table["none", ""], table["noise", "0.3"], table["noise", "3"]
    assert float(none["decoder_mse"]) < 0.4 * float(none["mean_mse"])
    assert float(none["worst_mse"]) < float(weak["worst_mse"]) < float(strong["worst_mse"])
    assert "randomized" in weak["flags"]
    assert "randomized" not in none["flags"]


def test_every_output_is_there_and_nothing_half_written(run):
    for name in OUTPUTS:
        assert (run / name).stat().st_size > 500
    assert not list(run.rglob(".*"))


def test_records_hold_their_whole_story(run):
    records = [json.loads(path.read_text()) for path in (run / "records").glob("*.json")]
    assert len(records) == 7 * 6
    assert len({record["data_hash"] for record in records}) == 1
    for record in records:
        assert record["status"] == "ok"
        assert record["machine"]["torch"]
        sidecar = load_file(run / "scores" / f"{record['key']}.safetensors")
        if record["parent"] is None:
            assert len(record["history"]) == 3
            assert record["metrics"]["accuracy"] == pytest.approx(sidecar["correct"].mean())
            floors = {name: value["mse"] for name, value in record["floors"].items()}
            order = ("thumbnail_4x4", "thumbnail_2x2", "class_mean", "mean_image")
            assert sorted(floors, key=floors.get) == list(order)
        else:
            assert record["metrics"]["mse"]["mean"] == pytest.approx(
                sidecar["mse"].mean(), rel=1e-4
            )
            floor = record["config"]["attack"]["name"] == "mean"
            assert ("pairs" in record["threat_model"]["grants"]) != floor


@pytest.mark.slow
def test_a_report_is_a_pure_function_of_the_records(copy, here):
    """All outputs deleted and made again are the same bytes."""
    before = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    assert set(OUTPUTS) < set(before)
    for name in before.keys() - {"suite.json"}:
        (copy / name).unlink()
    assert here("report", copy).returncode == 0
    after = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    assert after.keys() == before.keys()
    for name, content in before.items():
        assert after[name] == content, name


def test_a_frame_is_the_table_that_is_written(copy):
    """With gaps, too: a trial is missing. Written numbers have six significant digits."""
    store, trials = Store(copy), read_suite(copy).attacks
    store.record_path(trials[-1].key).unlink()
    frame = read(copy).to_frame()
    assert frame["missing_trials"].tolist() == [0, 0, 0, 0, 0, 0, 1]
    table = pd.read_csv(write_csv(frame, copy / "again.csv"))
    assert list(frame) == list(table)
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column):
            np.testing.assert_allclose(frame[name].astype(float), column, rtol=5e-6)
        else:
            assert frame[name].fillna("").tolist() == column.fillna("").tolist()


def test_records_of_other_code_or_of_another_victim_do_not_count(copy):
    store, loaded = Store(copy), suite.load("smoke")

    def unfinished() -> set[str]:
        standings = survey(loaded, store)
        return {trial.label for trial in loaded.trials if standings[trial.key].state != "done"}

    assert unfinished() == set()
    victim = next(v for v in loaded.victims if v.victim.defense.name == "none")
    record = store.victim(victim.key)
    store.write(record.model_copy(update={"source": 16 * "0"}))  # of another day
    assert "none, seed 0" in unfinished()
    assert len(unfinished()) == 6  # and the five attacks on it
    store.write(record.model_copy(update={"checkpoint_sha256": 64 * "0"}))  # trained again
    assert len(unfinished()) == 5


@pytest.mark.slow
def test_a_suite_of_floors_alone_still_reports(copy, here):
    done = here("run", "smoke", "--out", copy, "--set", "attacks={mean={},class_mean={}}")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_level_of_knowledge_through_the_command_line(copy, here):
    """Query, white box and repeated releases, on the noise victims that are there already."""
    quick = "width=8,blocks=1,max_steps=30"
    attacks = (
        f"attacks={{mean={{}},query_decoder={{{quick}}},map={{{quick},steps=3,tuning=8}},"
        f"averaging={{{quick},releases=4}},gmm={{components=[2],by_class=true,draws=1}}}}"
    )
    one = ("--set", "defenses={none={},noise={strengths=[0.3]}}", "--set", attacks)
    done = here("run", "smoke", "--out", copy, *one)
    assert done.returncode == 0, done.stderr
    with (copy / "leaderboard.csv").open() as file:
        rows = {row["defense"]: row for row in csv.DictReader(file)}
    assert rows["noise"]["worst_attack"] != "averaging"
    assert 0 < float(rows["noise"]["averaging_mse"]) < 1
    assert 0 < float(rows["noise"]["bound_mse"]) < float(rows["noise"]["worst_mse"])
    assert rows["none"]["bound_mse"] == ""
    models = {}
    for path in (copy / "records").glob("*.json"):
        record = json.loads(path.read_text())
        if record["parent"] and record["config"]["attack"]["label"] in attacks:
            models[record["config"]["attack"]["label"]] = record["threat_model"]
            assert record["curve"] == [] or record["curve"][-1] > 0
    assert models["query_decoder"]["grants"] == ["pairs", "query"]
    assert models["map"]["grants"] == ["pairs", "query", "client"]
    assert models["averaging"]["releases_per_image"] == 4
    for name in ("attack_cost.png", "costs.csv"):
        assert (copy / name).is_file()


@pytest.mark.slow
def test_a_world_with_a_known_optimum_is_drawn_with_it(tmp_path, here):
    small = ("--set", "dataset={use='gaussian',components=1,aux=2000,test=500,train=200}")
    only = ("--set", "defenses={noise={strengths=[0.02,0.05]}}", "--set", "attacks={ridge={}}")
    done = here("run", "gaussian", "--out", tmp_path, *small, *only)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "optimum.png").is_file()
    with (tmp_path / "leaderboard.csv").open() as file:
        for row in csv.DictReader(file):
            assert float(row["optimum_mse"]) == pytest.approx(float(row["worst_mse"]), rel=0.05)
            assert float(row["optimum_mse"]) == pytest.approx(float(row["bound_mse"]), rel=0.05)
            assert "bound_violated" not in row["flags"]
            assert "no_control" in row["flags"]


@pytest.mark.slow
def test_another_scheduler_can_run_single_trials(run, tmp_path, here, refused):
    listed = here("run", "smoke", "--dry-run", "--only", "defense=none", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    keys = {line[33:].strip(): line[:16] for line in listed.stdout.splitlines()[:-1]}
    keys = {label.split("  ")[-1].strip(): key for label, key in keys.items()}
    victim, gmm = keys["none, seed 0"], keys["gmm on none, seed 0"]
    assert "42 trials, 0 need no run, 6 to run: not known yet" in listed.stdout
    place = ("--out", tmp_path, "--suite", "smoke")
    refused(["trial", gmm, *place], f"victim {victim} must be trained first")
    refused(["trial", gmm[:-1], *place], "unknown trial", f"did you mean '{gmm}'")
    refused(["trial", "other", *place], "unknown trial 'other'; choose from", "... (42)")
    refused(["trial", gmm, *place, "--set", "seeds=[7]"], "unknown trial")
    done = here("trial", gmm, victim, *place)
    assert done.returncode == 0
    assert done.stdout == "done: none, seed 0\ndone: gmm on none, seed 0\n"
    same_as_uninterrupted(tmp_path, run)
    assert "2 done, 40 missing" in here("status", tmp_path).stdout
    listed = here("run", "smoke", "--dry-run", "--out", tmp_path, "--limit", 3)
    assert "42 trials, 2 need no run, 3 to run: about" in listed.stdout


@pytest.mark.slow
def test_the_leaderboard_does_not_depend_on_the_number_of_workers(run, tmp_path):
    """Two processes, and that of the tests."""
    done = bench("run", "smoke", "--out", tmp_path, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert "slot_attention" in done.stdout
    assert "leaderboard.csv" in done.stdout
    assert (tmp_path / "leaderboard.csv").read_bytes() == (run / "leaderboard.csv").read_bytes()


@pytest.mark.slow
def test_a_single_trial_that_hangs_has_failed(run, tmp_path, here):
    """As in a run: there is a record that says so, and the exit code is not 0."""
    shutil.copytree(run, folder := tmp_path / "copy")
    trial = next(trial for trial in read_suite(folder).attacks if trial.attack.label == "gmm")
    Store(folder).record_path(trial.key).unlink()
    done = here("trial", trial.key, "--out", folder, "--time-limit", 1e-4)
    assert done.returncode == 1
    assert done.stdout.startswith("failed: ")
    assert "stopped at its time limit" in Store(folder).read(trial.key).cause
