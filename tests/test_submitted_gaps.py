"""What a submission lacks, and what only its author can compute."""

from safetensors.numpy import save

from smashbench.bench.run.attempt import failure
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store
from tests.submitted import submission
from tests.test_submissions import problems, texts


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
