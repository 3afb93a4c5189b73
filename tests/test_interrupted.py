"""A run that is interrupted says what of a folder is of other code, as it is then; and what a run
refuses to go on with."""

from dataclasses import replace
from pathlib import Path

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.report.rows import read
from smashbench.bench.run import execute
from smashbench.bench.run.engines import RunOptions
from smashbench.bench.run.survey import Standing
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite


@pytest.fixture
def aged(tiny, tiny_copy) -> tuple[Suite, Path]:
    """As if the code of both attacks on ``noise`` had changed since."""
    store = Store(tiny_copy)
    for trial in tiny.attacks[2:]:
        store.write(store.attack(trial.key).model_copy(update={"source": "0" * 16}))
    return tiny, tiny_copy


def interrupted(suite: Suite, folder: Path, monkeypatch, done: list[str]) -> None:
    """Runs it until some trials are done."""

    def some(*_) -> int:
        store = Store(folder)
        for key in done:
            source = store.attack(suite.attacks[0].key).source
            store.write(store.attack(key).model_copy(update={"source": source}))
        raise KeyboardInterrupt

    monkeypatch.setattr(execute, "_run", some)
    with pytest.raises(KeyboardInterrupt):
        execute.execute(suite, RunOptions(folder))


def test_what_was_not_done_again_stays_flagged(aged, monkeypatch):
    suite, folder = aged
    mean, gmm = (trial.key for trial in suite.attacks[2:])
    interrupted(suite, folder, monkeypatch, [])
    assert read_suite(folder).of_other_code == {mean, gmm}
    assert "outdated" in read(folder).rows[1].flags
    interrupted(suite, folder, monkeypatch, [mean])
    assert read_suite(folder).of_other_code == {gmm}
    assert "outdated" in read(folder).rows[1].flags


def test_what_single_trials_do_again_is_flagged_no_more(aged):
    suite, folder = aged
    mean, gmm = (trial.key for trial in suite.attacks[2:])
    save_suite(replace(suite, of_other_code=frozenset({mean, gmm})), folder)
    assert execute.run_single(suite, [mean], RunOptions(folder, workers=1)) == 0
    assert read_suite(folder).of_other_code == {gmm}


def test_a_victim_whose_weights_are_not_there_stays_flagged(tiny, tiny_copy, monkeypatch):
    """As in a pack: it is kept on request, and its weights are nobody's need."""
    store, victim = Store(tiny_copy), tiny.victims[1]
    store.write(store.victim(victim.key).model_copy(update={"source": "0" * 16}))
    store.victim_path(victim.key).unlink()
    monkeypatch.setattr(execute, "_run", lambda *_: 0)
    execute.execute(tiny, RunOptions(tiny_copy, keep_outdated=True))
    assert victim.key in read_suite(tiny_copy).kept


def test_trials_that_are_done_again_are_counted_once(tiny, tiny_copy, monkeypatch):
    """A victim had finished, and its weights are gone, which an attack needs."""
    shown = []

    class Shown:
        def __init__(self, *numbers: int) -> None:
            shown.append(numbers)

        def close(self) -> None:
            pass

    monkeypatch.setattr(execute, "Progress", Shown)
    monkeypatch.setattr(execute.Scheduler, "run", lambda *_: None)
    standings = dict.fromkeys((trial.key for trial in tiny.trials), Standing("done"))
    execute._run(tiny, [tiny.trials[0]], RunOptions(tiny_copy, workers=1), standings)
    assert shown == [(len(tiny.trials), len(tiny.trials) - 1, 1)]


def test_other_images_than_those_of_finished_trials_are_refused(tiny, tiny_copy, monkeypatch):
    """No report could show both. What other code made is done again, and may have been of others;
    attacks say which code ran the victim."""
    store, (_, noise) = Store(tiny_copy), tiny.victims
    assert store.attack(tiny.attacks[-1].key).victim_source == store.victim(noise.key).source
    record = store.victim(noise.key).model_copy(update={"data_hash": "0" * 16})
    store.write(record)
    options = RunOptions(tiny_copy)
    for command in (
        lambda: execute.execute(tiny, options),
        lambda: execute.run_single(tiny, [noise.key], options),
        lambda: execute.rescore(tiny, options),
    ):
        with pytest.raises(BenchError, match=r"the images are not those .* put these back, or"):
            command()
    store.write(record.model_copy(update={"source": "0" * 16}))
    monkeypatch.setattr(execute, "_run", lambda *_: 0)
    execute.execute(tiny, options)


def test_a_kill_leaves_the_flags_of_before(aged, monkeypatch):
    """Nothing of the run's own comes to say what it did."""
    suite, folder = aged
    saved = []
    save = execute._save
    monkeypatch.setattr(execute, "_save", lambda *a, **k: (save(*a, **k), saved.append(a[2])))
    interrupted(suite, folder, monkeypatch, [])
    assert saved[0] == {trial.key for trial in suite.attacks[2:]}
