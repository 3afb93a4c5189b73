"""What a run starts first, and what it learns of how long trials take; nothing is run."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from smashbench.bench.run.attempt import Outcome
from smashbench.bench.run.engines import RunOptions
from smashbench.bench.run.engines.slurm import Slurm
from smashbench.bench.run.estimates import Estimates, group_of
from smashbench.bench.run.scheduler import Scheduler
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Trial
from tests.forge import attack_trial, victim_trial

SHORT, LONG = victim_trial("none", None, 0, "short"), victim_trial("none", None, 1, "long")
SLOW = attack_trial(SHORT, "mean", 0, "slow")


class Engine:
    """Notes what it is given, and ends all of it with one outcome."""

    workers = 1

    def __init__(self, folder: Path, outcome: Outcome) -> None:
        self.options, self.outcome = RunOptions(folder), outcome
        self.begun: list[Trial] = []

    def submit(self, trial: Trial) -> None:
        self.begun.append(trial)

    def wait(self, _: float) -> list[tuple[Trial, Outcome]]:
        return [(self.begun[-1], self.outcome)]


class Silent:
    """Progress that nobody sees."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def advance(self) -> None: ...

    def show(self, *_: object) -> None: ...


def ran(
    folder: Path, trials: list[Trial], outcome: Outcome, estimates: Estimates, rescored=()
) -> tuple[list[Trial], list[str]]:
    engine, progress = Engine(folder, outcome), Silent()
    Scheduler(trials, Store(folder), engine, estimates, rescored).run(progress)
    return engine.begun, progress.said


def test_a_victim_is_as_urgent_as_the_longest_attack_on_it(tmp_path):
    """Else a run ends on one long attack alone."""
    estimates = Estimates([], {})
    for trial, seconds in ((SHORT, 10), (LONG, 50), (SLOW, 100)):
        estimates.observe(trial, seconds)
    begun, _ = ran(tmp_path, [LONG, SHORT, SLOW], Outcome("done"), estimates)
    assert begun == [SHORT, SLOW, LONG]


@pytest.mark.parametrize(
    ("outcome", "rescored", "learned"),
    [
        (Outcome("done", seconds=7.0), (), 7.0),
        (Outcome("done"), (), None),  # another run had done it, or it was left out
        (Outcome("done", seconds=7.0), (SLOW.key,), None),
        (Outcome("done", seconds=7.0), (SHORT.key, SLOW.key), 7.0),  # all are only measured again
    ],
)
def test_what_was_run_here_alone_says_how_long_it_takes(outcome, rescored, learned, tmp_path):
    estimates = Estimates([], {})
    ran(tmp_path, [SHORT, SLOW], outcome, estimates, rescored)
    assert estimates.of(group_of(SLOW)) == learned


def test_a_cause_that_ends_in_an_empty_line_is_no_crash(tmp_path):
    _, said = ran(tmp_path, [SHORT], Outcome("failed", ""), Estimates([], {}))
    assert said == ["failed: short, seed 0: no cause given"]


def test_a_job_that_one_answer_of_slurm_left_out_is_not_gone(monkeypatch):
    """Its time of grace begins when it is seen to have ended, and not before."""
    paths = SimpleNamespace(result_pickle=SimpleNamespace(exists=lambda: False))
    engine = Slurm.__new__(Slurm)
    engine._jobs, engine._gone = {"7": (SimpleNamespace(paths=paths), SHORT)}, {}
    engine._answered, clock, answers = 0.0, iter(range(0, 3000, 1000)), iter(["", "7 RUNNING", ""])
    name = "smashbench.bench.run.engines.slurm"
    monkeypatch.setattr(f"{name}._run", lambda *_: next(answers))
    monkeypatch.setattr(
        f"{name}.time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None)
    )
    assert [engine.wait(0) for _ in range(3)] == [[], [], []]
