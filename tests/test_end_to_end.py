"""The `smoke` suite through the command line, and what a person would do wrong."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from bench import engine, suite
from bench.__main__ import main
from bench.store import Store

ROOT = Path(__file__).parent.parent
OUTPUTS = (
    "leaderboard.csv",
    "tradeoff_mse.png",
    "tradeoff_mse.svg",
    "tradeoff_ssim.png",
    "tradeoff_ssim.svg",
    "reconstructions.png",
)


def bench(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *map(str, arguments)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "SMASHBENCH_DATA"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def refused(capsys, monkeypatch):
    """Runs a command that must end with exit code 2 and one message, without a traceback."""
    monkeypatch.delenv("SMASHBENCH_DATA", raising=False)

    def check(arguments: list[object], *words: str) -> None:
        assert main([str(argument) for argument in arguments]) == 2
        message = capsys.readouterr().err
        assert message.startswith("error: ")
        assert "Traceback" not in message
        for word in words:
            assert word in message

    return check


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """A finished run. Tests must not change it."""
    folder = tmp_path_factory.mktemp("results") / "smoke"
    done = bench("run", "smoke", "--out", folder, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert "slot_attention" in done.stdout
    assert "leaderboard.csv" in done.stdout
    return folder


@pytest.fixture
def copy(run, tmp_path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


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
            name: float(row[f"{name}_mse"]) for name in ("mean", "class_mean", "gmm", "decoder")
        }
        assert row["worst_attack"] == min(errors, key=errors.get)
        assert float(row["worst_mse"]) == min(errors.values())
        assert int(row["payload"]) == 512
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
        sidecar = load_file(run / "records" / f"{record['key']}.safetensors")
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
            assert record["threat_model"]["aux_overlap"] == 0
            assert record["threat_model"]["knowledge"] == "pairs"


def test_report_is_a_pure_function_of_the_records(copy):
    before = {name: (copy / name).read_bytes() for name in OUTPUTS}
    for name in OUTPUTS:
        (copy / name).unlink()
    assert bench("report", copy).returncode == 0
    for name in OUTPUTS:
        assert (copy / name).read_bytes() == before[name], name


def test_a_second_run_repeats_nothing_and_a_lost_trial_alone_is_redone(copy):
    times = {path: path.stat().st_mtime_ns for path in (copy / "records").iterdir()}
    before = (copy / "leaderboard.csv").read_text()
    lost = next(
        path
        for path in (copy / "records").glob("*.json")
        if json.loads(path.read_text())["config"].get("attack", {}).get("label") == "gmm"
    )
    old = json.loads(lost.read_text())
    lost.unlink()
    assert bench("run", "smoke", "--out", copy, "--workers", 1).returncode == 0
    redone = {p for p in (copy / "records").iterdir() if times.get(p) != p.stat().st_mtime_ns}
    assert redone == {lost, lost.with_suffix(".safetensors")}
    new = json.loads(lost.read_text())
    for name in ("seconds", "machine"):
        old.pop(name), new.pop(name)
    assert new == old  # the same numbers, to the last digit
    assert (copy / "leaderboard.csv").read_text() == before


def test_records_of_other_code_or_of_another_victim_do_not_count(copy):
    store, loaded = Store(copy), suite.load("smoke")

    def unfinished() -> set[str]:
        done = engine.finished(loaded, store)
        return {trial.label for trial in loaded.trials if trial.key not in done}

    assert unfinished() == set()
    victim = next(v for v in loaded.victims if v.config["defense"]["name"] == "none")
    record = store.read(victim.key)
    store.write(record | {"source": "of another day"})
    assert "none, seed 0" in unfinished()
    assert len(unfinished()) == 6  # and the five attacks on it
    store.write(record | {"checkpoint_sha256": "trained again"})
    assert len(unfinished()) == 5


def test_a_suite_of_floors_alone_still_reports(copy):
    done = bench("run", "smoke", "--out", copy, "--set", "attacks={mean={},class_mean={}}")
    assert done.returncode == 0, done.stderr


def test_every_level_of_knowledge_through_the_command_line(copy):
    """Query, white box and repeated releases, on the noise victims that are there already."""
    quick = "width=8,blocks=1,max_steps=30"
    attacks = (
        f"attacks={{mean={{}},query_decoder={{{quick}}},map={{{quick},steps=3,tuning=8}},"
        f"averaging={{{quick},releases=4}},gmm={{components=[2],by_class=true,draws=1}}}}"
    )
    one = ("--set", "defenses={none={},noise={strengths=[0.3]}}", "--set", attacks)
    done = bench("run", "smoke", "--out", copy, *one)
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
    assert models["query_decoder"]["knowledge"] == "query"
    assert models["map"]["knowledge"] == "white_box"
    assert models["averaging"]["releases_per_image"] == 4
    for name in ("attack_cost.png", "costs.csv"):
        assert (copy / name).is_file()


def test_a_world_with_a_known_optimum_is_drawn_with_it(tmp_path):
    small = ("--set", "dataset={use='gaussian',components=1,aux=2000,test=500,train=200}")
    only = ("--set", "defenses={noise={strengths=[0.02,0.05]}}", "--set", "attacks={ridge={}}")
    done = bench("run", "gaussian", "--out", tmp_path, *small, *only)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "optimum.png").is_file()
    with (tmp_path / "leaderboard.csv").open() as file:
        for row in csv.DictReader(file):
            assert float(row["optimum_mse"]) == pytest.approx(float(row["worst_mse"]), rel=0.05)
            assert float(row["optimum_mse"]) == pytest.approx(float(row["bound_mse"]), rel=0.05)
            assert "bound_violated" not in row["flags"]
            assert "no_control" in row["flags"]


def test_a_failed_trial_is_recorded_shown_and_tried_again(copy):
    too_few = ("--set", "dataset.aux=10", "--set", "attacks.decoder.val_share=0.01")
    one = ("--set", "defenses={none={}}", "--set", "attacks={decoder={val_share=0.01}}")
    for _ in range(2):
        done = bench("run", "smoke", "--out", copy, "--workers", 1, *one, *too_few)
        assert done.returncode == 1, done.stderr
        assert "1 trials failed" in done.stdout
        assert "1 trials missing" in done.stdout
    failed = [json.loads(path.read_text()) for path in (copy / "records").glob("*.json")]
    failed = [record for record in failed if record["status"] == "failed"]
    assert len(failed) == 1
    assert "too few to hold out" in failed[0]["error"]


def test_a_damaged_checkpoint_or_record_is_refused(copy, refused):
    victim = next((copy / "victims").iterdir())
    for path in (copy / "records").glob("*.json"):
        if json.loads(path.read_text())["parent"] == victim.stem:
            path.unlink()
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])
    refused(["run", "smoke", "--out", copy], victim.name, "truncated or altered", "delete")
    victim.write_bytes(content)
    record = copy / "records" / f"{victim.stem}.json"
    record.write_text(record.read_text()[:50])
    refused(["run", "smoke", "--out", copy], record.name, "truncated or altered")
    refused(["report", copy], record.name)


def test_a_report_on_nothing_is_refused_and_overwrites_nothing(copy, refused):
    before = (copy / "leaderboard.csv").read_bytes()
    shutil.rmtree(copy / "records")
    refused(["report", copy], "no finished trial")
    assert (copy / "leaderboard.csv").read_bytes() == before


def test_damaged_scores_are_refused(copy, refused):
    arrays = next((copy / "records").glob("*.safetensors"))
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(content)
    refused(["report", copy], arrays.name, "truncated or altered", "delete")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "smok"], ["unknown suite 'smok'; did you mean 'smoke'"]),
        (["run", "smoke", "--set", "defenses.nois={}"], ["did you mean 'noise'"]),
        (["run", "smoke", "--workers", "0"], ["--workers 0"]),
        (["run", "cifar10"], ["needs a data folder", "--data", "fetch cifar10"]),
        (["run", "cifar10", "--data", "/nowhere"], ["/nowhere", "fetch cifar10"]),
        (["run", "smoke", "--set", "dataset.train=11"], ["multiples of ten"]),
        (["report", "/nowhere"], ["no results folder"]),
        (["fetch", "cifar"], ["unknown dataset 'cifar'; did you mean 'cifar10'"]),
        (["fetch", "cifar10"], ["--data DIR"]),
    ],
)
def test_bad_input_is_one_clear_error(arguments, words, tmp_path, refused):
    out = ["--out", tmp_path / "out"] if arguments[0] == "run" else []
    refused([*arguments, *out], *words)
    assert not (tmp_path / "out").exists()


def test_an_unwritable_output_is_one_clear_error(tmp_path, refused):
    (tmp_path / "file").write_text("in the way")
    refused(["run", "smoke", "--out", tmp_path / "file" / "out"], "cannot write", "--out")


def test_the_process_ends_with_the_exit_code_and_no_traceback():
    done = bench("run", "smok")
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: unknown suite 'smok'; did you mean 'smoke'? (or give the path of a TOML file)\n"
    )


def test_list_shows_every_component_with_a_line():
    done = bench("list")
    assert done.returncode == 0
    for word in ("kmeans_cem", "decoder", "photos", "vgg11", "quick", "K-means CEM"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 200


def test_make_help_lists_every_target():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    makefile = (ROOT / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY"))
    for target in phony.split()[1:]:
        assert f"  {target}" in text.stdout


@pytest.mark.slow
def test_the_numbers_do_not_depend_on_the_number_of_workers(run, tmp_path):
    assert bench("run", "smoke", "--out", tmp_path, "--workers", 1).returncode == 0
    ours, theirs = rows(tmp_path), rows(run)
    for name, row in ours.items():
        for column in row.keys() - {"train_seconds"}:
            assert row[column] == theirs[name][column], (name, column)
