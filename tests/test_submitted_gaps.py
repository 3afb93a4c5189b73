"""What a submission lacks, and what only its author can compute."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.record_table import record_line
from smashbench.bench.run.attempt import failure
from smashbench.bench.store.pack import pack
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.submitting.scores import _misjudged
from smashbench.bench.suite.trial import Suite
from tests.forge import attack_trial, keep_victim, victim_trial
from tests.submitted import submission
from tests.test_submissions import problems, texts


@pytest.mark.slow
def test_an_attack_that_only_the_board_had_memory_for_is_lacking(run, tmp_path):
    theirs = submission(run, tmp_path / "theirs", label="mine")
    store, suite = Store(theirs), read_suite(theirs)
    left = next(trial for trial in suite.attacks if trial.attack.label == "gmm")
    store.write(failure(left, "too large", left_out=True))
    (found,) = problems(theirs, run)
    assert "the board's rows were attacked in more ways" in found
    assert "gmm" in found
    assert f"all the other {len(suite.trials) - 1} trials are finished" in texts(theirs, "ok")
    assert "1 attacks did not fit in memory" in texts(theirs, "note")
    assert problems(run, theirs) == []  # of what the board itself left out nothing is lacking


@pytest.mark.slow
def test_metrics_of_a_plugin_that_is_not_loaded_are_no_forgery(run, tmp_path):
    theirs = submission(run, tmp_path / "theirs")
    store, suite = Store(theirs), read_suite(theirs)
    key = suite.attacks[0].key
    record = store.finished(key)
    scores = store.arrays(record, "scores")
    told = {"metrics": {**record.metrics, "mine": record.metrics["mse"]}}
    store.write(record.model_copy(update=told))
    assert "say other means" in problems(theirs)[0]  # without scores it says what it likes
    told["arrays"] = record.arrays | store.write_arrays(
        key, {"scores": save(dict(scores) | {"mine": scores["mse"]})}
    )
    store.write(record.model_copy(update=told))
    assert problems(theirs) == []
    assert "not looked at: the metrics mine; --plugin" in texts(theirs, "note")
    told["metrics"]["derived"] = record.metrics["mse"]  # of another's scores, by its own code
    told["scoring"] = record.scoring | {"derived": "0" * 16}
    store.write(record.model_copy(update=told))
    assert problems(theirs) == []
    assert "the metrics derived, mine" in texts(theirs, "note")


@pytest.mark.slow
def test_a_metric_that_came_after_a_run_is_not_asked_of_it(run, tmp_path, monkeypatch):
    theirs = submission(run, tmp_path / "theirs")
    later = replace(METRICS["psnr"], name="later", linear=False)  # of the scores of mse
    monkeypatch.setitem(METRICS, "later", later)
    assert not any("say other means" in text for text in problems(theirs))
    store, key = Store(theirs), read_suite(theirs).attacks[0].key
    record = store.finished(key)
    said = {"scoring": record.scoring | {"later": "0" * 16}}  # and says nothing of it
    store.write(record.model_copy(update=said))
    assert any("say other means" in text for text in problems(theirs))


def test_a_damaged_second_pack_is_named_where_it_lies(run, tmp_path):
    pack(submission(run, tmp_path / "theirs"))
    second = tmp_path / "theirs" / "packed.1.zip"
    second.write_bytes(b"no zip")
    (found,) = problems(tmp_path / "theirs" / "packed.zip")
    assert found.startswith(f"{second}: truncated or altered")


def test_free_texts_of_others_are_no_formulas_and_move_no_cursor(tmp_path):
    """In ``records.csv``, and in a terminal."""
    store, victim = Store(tmp_path), victim_trial()
    text = "=HYPERLINK(1)"
    record = keep_victim(store, victim, machine={"device": text, "torch": "2.11"})
    line = record_line(victim, record)
    assert (line["device"], line["torch"]) == (f"'{text}", "2.11")
    failed = failure(victim, f"Traceback\n{text}\x1b[2J")
    assert failed.cause == f"{text}[2J"
    assert record_line(victim, failed)["error"] == f"'{failed.cause}"
    save_suite(Suite("hand", "", (victim,), (attack_trial(victim),)), tmp_path)
    saved = (tmp_path / "suite.json").read_text()
    (tmp_path / "suite.json").write_text(saved.replace('"hand"', r'"\u001b[2J"'))
    with pytest.raises(BenchError, match="name"):
        read_suite(tmp_path)


def test_accuracy_is_of_all_images_that_have_a_class(photos):
    """A mask of those that the head is right about would make any defense accurate."""
    y = photos.test.y.clone()
    everyone = {"correct": np.ones(len(y))}
    assert not _misjudged(everyone, photos)
    assert not _misjudged(everyone | {"judged": np.ones(len(y))}, photos)
    some = np.arange(len(y)) > 4
    assert _misjudged(everyone | {"judged": some.astype(np.float32)}, photos)
    y[:5] = -1
    partly = replace(photos, test=photos.test._replace(y=y))
    assert _misjudged(everyone, partly)
    assert not _misjudged(everyone | {"judged": some.astype(np.float32)}, partly)


def test_records_of_other_images_are_a_problem_also_without_a_board(run, tmp_path):
    theirs = submission(run, tmp_path / "theirs", record={"data_hash": "0" * 16})
    assert "its images are not those that are here under the same name" in problems(theirs)


def test_an_attack_that_is_better_than_can_be_is_a_problem(run, tmp_path):
    found = problems(submission(run, tmp_path / "theirs", mse=1e-6))
    assert any(text.startswith("bound_violated: ") for text in found)
