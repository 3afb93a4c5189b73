"""Submissions merged, results compared, and what is refused."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import load, save

from smashbench.bench.report.rows import read
from smashbench.bench.report.tables import write_csv
from smashbench.bench.run.attempt import failure
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.merge import merge
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.config import key_of
from smashbench.bench.suite.trial import Suite, Trial
from tests.forge import attack_trial, keep_attack, keep_victim, victim_trial
from tests.submitted import DEFENSE, submission

OTHER = 16 * "f"


def board(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    with (folder / "leaderboard.csv").open() as file:
        return {(row["defense"], row["strength"]): row for row in csv.DictReader(file)}


def merge_into(out: Path, *folders: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The leaderboard of several folders, without the pictures of a whole report."""
    write_csv(read(*folders).to_frame(), out / "leaderboard.csv")
    return board(out)


@pytest.mark.slow
def test_what_both_have_counts_once(run, tmp_path, here):
    theirs = submission(run, tmp_path / "theirs")
    done = here("report", run, theirs, "--out", tmp_path / "both")
    assert done.returncode == 0, done.stderr
    ours = (run / "leaderboard.csv").read_text()
    assert (tmp_path / "both" / "leaderboard.csv").read_text() == ours


def test_a_submission_gets_its_rows(run, tmp_path):
    theirs = submission(run, tmp_path / "theirs", label="mine", mse=2)
    rows = merge_into(tmp_path / "both", run, theirs)
    assert len(rows) == 8
    ours, mine = rows[DEFENSE, "0.1"], rows["mine", "0.1"]
    assert float(mine["worst_mse"]) == pytest.approx(2 * float(ours["worst_mse"]), rel=1e-4)
    assert mine["accuracy"] == ours["accuracy"]


def test_one_name_for_two_things_is_told_apart(run, tmp_path):
    theirs = submission(run, tmp_path / "theirs", training={"epochs": 99})
    rows = merge_into(tmp_path / "both", run, theirs)
    assert (DEFENSE, "0.1") in rows
    assert rows[DEFENSE, "0.1"]["seeds"] == "1"
    assert "other_training" in rows[f"{DEFENSE} (theirs)", "0.1"]["flags"]
    assert "other_training" not in rows[DEFENSE, "0.1"]["flags"]


def test_folders_of_one_name_are_told_apart_by_where_they_lie(run, tmp_path):
    first = submission(run, tmp_path / "a" / "mine", training={"epochs": 98})
    second = submission(run, tmp_path / "b" / "mine", training={"epochs": 99})
    names = {row.defense for row in read(run, first, second).rows}
    assert {DEFENSE, f"{DEFENSE} (mine)", f"{DEFENSE} ({second.resolve()})"} <= names


def test_rows_of_another_training_are_neither_compared_nor_compared_with(run, tmp_path):
    """Their noise is none for the rows of the first folder, and no undefended row is theirs."""
    longer = submission(run, tmp_path / "longer", training={"epochs": 99}, whole=True)
    alone, both = read(run), read(run, longer)
    assert [row.key for row in both.complete] == [row.key for row in alone.complete]
    assert len(both.rows) == 2 * len(alone.rows)
    for row in both.rows[len(alone.rows) :]:
        assert row.defense.endswith("(longer)")
        assert "other_training" in row.flags
        assert "no_control" not in row.flags  # it has an undefended row of its own
    ours = alone.to_frame()
    assert both.to_frame().head(len(ours)).equals(ours)


def test_one_name_for_other_options_at_other_strengths_is_told_apart(run, tmp_path):
    """Two strengths of one name are one sweep, unless another option differs."""
    more = submission(run, tmp_path / "more", strength=0.5)
    rows = merge_into(tmp_path / "both", run, more)
    assert (DEFENSE, "0.5") in rows
    fewer = submission(run, tmp_path / "fewer", strength=0.5, options={"clusters": 2})
    rows = merge_into(tmp_path / "both", run, fewer)
    assert (DEFENSE, "0.5") not in rows
    assert (f"{DEFENSE} (fewer)", "0.5") in rows
    assert "other_training" not in rows[f"{DEFENSE} (fewer)", "0.5"]["flags"]


def test_one_name_for_two_attacks_is_told_apart(run, tmp_path):
    theirs = submission(run, tmp_path / "theirs", attack={"gmm": {"rank": 5}}, mse=3)
    both = merge_into(tmp_path / "both", run, theirs)[DEFENSE, "0.1"]
    ours = board(run)[DEFENSE, "0.1"]
    assert both["gmm_mse"] == ours["gmm_mse"]
    assert float(both["gmm (theirs)_mse"]) == pytest.approx(3 * float(ours["gmm_mse"]), rel=1e-4)


def test_a_success_anywhere_beats_a_failure(run, copy, tmp_path):
    store = Store(copy)
    lost = next(t for t in read_suite(copy).attacks if "gmm on kmeans" in t.label)
    store.write(failure(lost, "x"))
    assert merge_into(tmp_path / "both", copy, run) == board(run)


def test_a_row_with_fewer_attacks_says_so(run, tmp_path):
    theirs = submission(run, tmp_path / "theirs", label="mine")
    content = json.loads((theirs / "suite.json").read_text())
    content["attacks"] = [a for a in content["attacks"] if a["label"] != "decoder"]
    (theirs / "suite.json").write_text(json.dumps(content))
    rows = merge_into(tmp_path / "both", run, theirs)
    assert "fewer_attacks" in rows["mine", "0.1"]["flags"]
    assert "fewer_attacks" not in rows[DEFENSE, "0.1"]["flags"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data_hash": OTHER}, [f"data_hash {OTHER} instead of"]),
        ({"scoring": {"mse": OTHER}}, [f"the code of mse {OTHER} instead of"]),
    ],
)
def test_what_is_not_comparable_is_refused_with_the_reason(run, tmp_path, refused, change, words):
    theirs = submission(run, tmp_path / "theirs", label="mine", record=change)
    refused(["report", run, theirs, "--out", tmp_path / "both"], "not comparable", *words)
    refused(["compare", run, theirs], "not comparable", *words)
    refused(["report", run, theirs], "--out")
    assert not (tmp_path / "both").exists()


def test_a_comparison_names_what_moved_beyond_its_interval(run, copy, tmp_path, here):
    same = here("compare", run, copy)
    assert (same.returncode, same.stdout) == (0, "7 rows in both: none moved\n")
    theirs = submission(run, tmp_path / "theirs", mse=2)
    moved = here("compare", submission(run, tmp_path / "before"), theirs)
    assert moved.returncode == 1
    lines = moved.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"{DEFENSE} 0.1: worst MSE ")
    assert lines[1].startswith(f"{DEFENSE} 0.1: worst FVU ")
    assert lines[-1] == "1 row in both: 1 moved"
    slightly = submission(run, tmp_path / "slightly", mse=1.05)
    assert here("compare", tmp_path / "before", slightly).returncode == 0
    assert "only in the first, not compared: none, " in here("compare", run, theirs).stdout
    renamed = submission(run, tmp_path / "renamed", label="mine")
    nothing = here("compare", tmp_path / "before", renamed)
    assert nothing.returncode == 2
    assert f"no row is in both, so that nothing can be compared: the first has {DEFENSE} 0.1" in (
        nothing.stderr
    )


def test_the_records_are_a_tidy_table(run):
    with (run / "records.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7 * 6
    store = Store(run)
    for row in rows:
        record = store.finished(row["key"])
        assert row["status"] == "ok"
        assert row["victim"] == (record.parent or record.key)
        if record.parent:
            assert float(row["mse_mean"]) == pytest.approx(record.metrics["mse"].mean, 1e-5)
            assert row["attack_seed"] == "0"
            assert row["accuracy"] == ""
        else:
            assert float(row["accuracy"]) == pytest.approx(record.metrics.accuracy, 1e-5)


def test_a_file_that_does_not_fit_is_named_in_the_folder_that_it_is_in(run, tmp_path):
    theirs = submission(run, tmp_path / "theirs", label="mine")
    store, trial = Store(theirs), read_suite(theirs).attacks[0]
    scores = load(store.arrays_path(trial.key, "scores").read_bytes())
    short = save({name: values[:-1].copy() for name, values in scores.items()})
    arrays = store.attack(trial.key).arrays | store.write_arrays(trial.key, {"scores": short})
    store.write(store.attack(trial.key).model_copy(update={"arrays": arrays}))
    with pytest.raises(
        DamagedError, match="has scores of 99 images where others have 100"
    ) as found:
        read(run, theirs)
    assert found.value.path == store.arrays_path(trial.key, "scores")


def test_rows_of_every_folder_that_are_of_other_code_are_known(tmp_path):
    keys = []
    for name, old in (("noise", False), ("laplace", True)):
        victim, folder = victim_trial(name), tmp_path / name
        trial = attack_trial(victim, "gmm")
        keep_victim(Store(folder), victim)
        keep_attack(Store(folder), trial, 0.02)
        suite = Suite(name, "", (victim,), (trial,))
        save_suite(replace(suite, of_other_code=frozenset({victim.key})) if old else suite, folder)
        keys.append(victim.key)
    merged, _ = merge([tmp_path / "noise", tmp_path / "laplace"])
    assert merged.of_other_code == {keys[1]}
    again = tmp_path / "again"  # the same trial, by present code: it is read from the first folder
    shutil.copytree(tmp_path / "laplace", again)
    save_suite(replace(read_suite(again), of_other_code=frozenset()), again)
    assert not merge([again, tmp_path / "laplace"])[0].of_other_code
    assert merge([tmp_path / "laplace", again])[0].of_other_code == {keys[1]}


def test_undefended_rows_and_plain_noise_are_those_of_all_folders(tmp_path):
    rows = {
        "first": [("none", None), ("noise", 0.1), ("cem", 1.0)],
        "later": [("none", None), ("noise", 0.5), ("cem", 2.0)],
    }
    for name, each in rows.items():
        victims = [victim_trial(*row) for row in each]
        trials = [attack_trial(victim, "gmm") for victim in victims]
        for victim, trial in zip(victims, trials, strict=True):
            keep_victim(Store(tmp_path / name), victim)
            keep_attack(Store(tmp_path / name), trial)
        save_suite(Suite(name, "", tuple(victims), tuple(trials)), tmp_path / name)
    merged, _ = merge([tmp_path / "first", tmp_path / "later"], newer=True)
    found = {(t.victim.defense.label, t.victim.defense.strength) for t in merged.victims}
    assert found == {("none", None), ("noise", 0.1), ("noise", 0.5), ("cem", 2.0)}


def test_of_two_versions_of_a_submission_the_later_one_counts(tmp_path):
    """Nothing is left of the first, which is no mistake."""
    for name, mse in (("v1", 0.01), ("v2", 0.03)):
        victim = victim_trial("cem", 1.0)
        trial = attack_trial(victim, "gmm")
        keep_victim(Store(tmp_path / name), victim)
        keep_attack(Store(tmp_path / name), trial, mse)
        save_suite(Suite(name, "", (victim,), (trial,)), tmp_path / name)
    suite, store = merge([tmp_path / "v1", tmp_path / "v2"], newer=True)
    assert [store.attack(t.key).metrics["mse"].mean for t in suite.attacks] == [
        Store(tmp_path / "v2").attack(suite.attacks[0].key).metrics["mse"].mean
    ]


def test_options_that_python_calls_equal_and_keys_do_not_are_told_apart(tmp_path):
    """1 and 1.0: their trials have other keys, and would be counted as more trainings of a row."""
    for name, value in (("whole", 1), ("real", 1.0)):
        plain = victim_trial("cem", 1.0)
        defense = plain.victim.defense.model_copy(update={"options": {"k": value}})
        config = plain.victim.model_copy(update={"defense": defense})
        victim = Trial(key_of(config), config)
        trial = attack_trial(victim, "gmm")
        keep_victim(Store(tmp_path / name), victim)
        keep_attack(Store(tmp_path / name), trial)
        save_suite(Suite(name, "", (victim,), (trial,)), tmp_path / name)
    merged, _ = merge([tmp_path / "whole", tmp_path / "real"])
    assert [t.victim.defense.label for t in merged.victims] == ["cem", "cem (real)"]
