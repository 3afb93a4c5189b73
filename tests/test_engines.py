"""Engines, with work that does what trials should not."""

import os
import signal
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from smashbench.bench.errors import BenchError
from smashbench.bench.run.attempt import Outcome, how_it_ended, log_size, lost
from smashbench.bench.run.engines import ENGINES, RunOptions
from smashbench.bench.run.engines.base import Engine
from smashbench.bench.run.engines.local import Local, _default_workers
from smashbench.bench.run.engines.slurm import _minutes, _outcome_of
from smashbench.bench.run.estimates import Estimates
from smashbench.bench.run.execute import _say_if_slow
from smashbench.bench.run.progress import Progress
from smashbench.bench.run.scheduler import Scheduler
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml
from smashbench.bench.suite.trial import Trial
from tests.forge import attack_trial, victim_trial


def trial(what: str, parent: Trial | None = None, number: int = 0) -> Trial:
    if parent:
        return attack_trial(parent, "mean", number, what)
    return victim_trial("none", None, number, what)


def work(given: Trial, folder: Path) -> Outcome:
    """Does what the label says, and writes it down."""
    what = given.attack.label if given.attack else given.victim.defense.label
    with (folder / "diary").open("a") as diary:
        diary.write(f"{what} {os.getpid()}\n")
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "exit":
        os._exit(0)
    if what == "leave":
        sys.exit(3)
    if what == "stop":
        return Outcome("stop", "no disk")
    if what == "unscored":
        return Outcome("unscored", "it is as it was")
    if what == "fail":
        return Outcome("failed", "long story\nshort")
    if what == "sleep":
        time.sleep(60)
    if what == "once busy" and (folder / "diary").read_text().count("once busy") == 1:
        return Outcome("busy")
    return Outcome("done")


@pytest.mark.parametrize(
    ("gpus", "cores", "workers"), [(0, 3, 3), (1, 16, 4), (2, 16, 8), (8, 16, 16), (1, 2, 2)]
)
def test_four_trials_share_a_gpu_where_there_are_cores_for_them(gpus, cores, workers, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert _default_workers() == workers


def run(trials: list[Trial], folder: Path, workers: int = 2) -> Scheduler:
    engine = local(folder, workers)
    try:
        scheduler = Scheduler(trials, Store(folder), engine, Estimates([], {}))
        with closing(Progress(len(trials), 0, workers)) as progress:
            scheduler.run(progress)
    finally:
        engine.close()
    return scheduler


def local(folder: Path, workers: int) -> Local:
    return Local(partial(work, folder=folder), RunOptions(folder, workers=workers, minutes=1))


def diary_lines(folder: Path) -> list[str]:
    return (folder / "diary").read_text().splitlines()


def diary(folder: Path) -> list[str]:
    return [line.rpartition(" ")[0] for line in diary_lines(folder)]


@pytest.mark.slow
def test_every_way_to_die_costs_one_trial(tmp_path):
    """Also an exit with code 0, which looks like success to whoever only reads exit codes."""
    deaths = [trial("kill"), trial("exit"), trial("leave")]
    well = [trial("fine", number=n) for n in range(4)]
    scheduler = run([well[0], *deaths, *well[1:]], tmp_path)
    assert scheduler.failed == 3
    store = Store(tmp_path)
    causes = [store.read(each.key).error for each in deaths]
    assert causes[0] == "its process was killed by SIGKILL, perhaps for lack of memory"
    assert causes[1] == "its process ended with exit code 0"
    assert causes[2] == "its process ended with exit code 3"
    assert diary(tmp_path).count("fine") == 4
    assert store.read(well[0].key) is None  # its record would be its own affair


@pytest.mark.slow
def test_the_attacks_of_a_failed_victim_fail_with_it_and_others_do_not(tmp_path):
    bad, good = trial("fail"), trial("fine")
    attacks = [trial("mean", victim, n) for n, victim in enumerate([bad, good, bad])]
    scheduler = run([bad, good, *attacks], tmp_path)
    assert scheduler.failed == 3
    for fallen in (attacks[0], attacks[2]):
        error = Store(tmp_path).read(fallen.key).error
        assert error == f"its victim {bad.key} failed: short"
    assert diary(tmp_path).count("mean") == 1


@pytest.mark.slow
def test_what_cannot_be_measured_again_leaves_no_record_and_stops_nothing(tmp_path):
    """What needs it cannot run; what is only to be measured again needs no victim."""
    bad = trial("unscored")
    needs, measured = trial("mean", bad, 0), trial("mean", bad, 1)
    engine = local(tmp_path, 1)
    trials = [bad, needs, measured, trial("fine")]
    finished = {bad.key, measured.key}
    scheduler = Scheduler(trials, Store(tmp_path), engine, Estimates([], {}), finished)
    with closing(engine), closing(Progress(4, 0, 1)) as progress:
        scheduler.run(progress)
    assert (scheduler.failed, scheduler.unscored) == (0, 1)
    assert sorted(diary(tmp_path)) == ["fine", "mean", "unscored"]
    assert not list(tmp_path.glob("records/*.json"))


def test_how_a_process_ended_is_told_whatever_the_signal():
    assert how_it_ended(-9) == "its process was killed by SIGKILL, perhaps for lack of memory"
    assert how_it_ended(-35) == "its process was killed by signal 35"  # a real-time one
    assert how_it_ended(3) == "its process ended with exit code 3"


def test_why_a_process_was_lost_is_not_what_its_log_says_of_an_attempt_before(tmp_path):
    """Killed before it could write a line of its own."""
    store, one = Store(tmp_path), trial("fine")
    assert log_size(one, store) == 0
    store.log_path(one.key).parent.mkdir()
    store.log_path(one.key).write_text("== then\nTimeout (0:30:00)!\n")
    since, how = log_size(one, store), "its process was killed by SIGKILL"
    assert lost(one, store, how, since=since).text == how
    with store.log_path(one.key).open("a") as log:
        log.write("== now\nfatal\n")
    assert lost(one, store, how, since=since).text == f"== now\nfatal\n{how}"


def test_a_job_that_raises_is_lost_and_no_other_is():
    def raised():
        raise RuntimeError("Job (task=0) failed\nMemoryError")

    job = SimpleNamespace(job_id="7", result=raised)
    assert _outcome_of(job) == Outcome("lost", "its SLURM job 7 raised: MemoryError")
    assert _outcome_of(SimpleNamespace(result=lambda: Outcome("done"))) == Outcome("done")


@pytest.mark.slow
def test_attacks_start_when_their_victim_is_there_longest_first(tmp_path):
    victims = [trial("victim", number=n) for n in range(2)]
    quick = [trial("mean", victim) for victim in victims]
    slow = [trial("slow", victim) for victim in victims]
    engine = local(tmp_path, 1)
    estimates = Estimates([], {})
    estimates.observe(victims[0], 10)
    estimates.observe(quick[0], 0.1)
    estimates.observe(slow[0], 100)
    scheduler = Scheduler([*victims, *quick, *slow], Store(tmp_path), engine, estimates)
    with closing(Progress(6, 0, 1)) as progress:
        scheduler.run(progress)
    engine.close()
    assert diary(tmp_path) == ["victim", "slow", "victim", "slow", "mean", "mean"]


@pytest.mark.slow
def test_a_long_run_finishes_rows_before_it_begins_others(tmp_path):
    """Victims take longest, and would all go first; the last two may."""
    victims = [trial("victim", number=n) for n in range(4)]
    attacks = [trial("mean", victim, number=n) for victim in victims for n in range(2)]
    estimates = Estimates([], {})
    estimates.observe(victims[0], 100)
    estimates.observe(attacks[0], 10)
    scheduler = Scheduler([*victims, *attacks], Store(tmp_path), local(tmp_path, 1), estimates)
    with closing(scheduler.engine), closing(Progress(12, 0, 1)) as progress:
        scheduler.run(progress)
    row = ["victim", "mean", "mean"]
    assert diary(tmp_path) == [*row, *row, *row[:1], *row, "mean", "mean"]


@pytest.mark.slow
def test_a_trial_that_another_run_is_at_is_tried_later(tmp_path):
    scheduler = run([trial("once busy"), trial("fine")], tmp_path)
    assert scheduler.failed == 0
    assert diary(tmp_path).count("once busy") == 2


@pytest.mark.slow
def test_what_a_person_must_change_stops_the_run(tmp_path):
    with pytest.raises(BenchError, match="no disk"):
        run([trial("stop"), *(trial("sleep", number=n) for n in range(3))], tmp_path)


@pytest.mark.slow
def test_a_worker_that_dies_at_rest_or_while_it_starts_is_replaced(tmp_path):
    engine = local(tmp_path, 1)
    for moment in ("starting", "idle"):
        first, second = trial("fine"), trial("fine", number=1)
        engine.submit(first)
        worker = engine._workers[0]
        if moment == "starting":
            worker.process.kill()
            ((ended, outcome),) = engine.wait(300)
            assert (ended, outcome.state) == (first, "lost")
        else:
            assert engine.wait(300) == [(first, Outcome("done"))]
            worker.process.kill()
            worker.process.join()
        engine.submit(second)
        assert engine.wait(300) == [(second, Outcome("done"))]
    engine.close()
    assert engine.wait(0) == []


@pytest.mark.slow
def test_a_worker_whose_trial_failed_is_not_trusted_with_another(tmp_path):
    run([trial("fail"), trial("fine"), trial("fine", number=1)], tmp_path, workers=1)
    bad, first, second = (line.split()[-1] for line in diary_lines(tmp_path))
    assert bad != first == second


@pytest.mark.slow
def test_workers_are_reused_and_end_with_the_engine(tmp_path):
    run([trial("fine", number=n) for n in range(6)], tmp_path)
    pids = {int(line.split()[-1]) for line in diary_lines(tmp_path)}
    assert len(pids) <= 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_every_listed_engine_says_what_it_is_and_what_a_trial_may_ask_for():
    for engine in ENGINES.values():
        assert issubclass(engine, Engine)
        assert engine.__doc__


def test_resources_and_limits_are_checked_before_anything_starts(refused, tmp_path):
    here = ["run", "smoke", "--out", tmp_path / "out"]
    refused([*here, "--resource", "mem=4G"], "--resource mem", "the local engine takes none")
    refused([*here, "--resource", "mem"], "write name=value")
    refused([*here, "--time-limit", "0"], "--time-limit 0")
    assert not (tmp_path / "out" / "records").exists()


def test_slurms_ways_to_write_a_time():
    for text, minutes in {
        "90": 90,
        "1:30": 1.5,
        "1:30:00": 90,
        "2-00:00:00": 2880,
        "1-6": 1800,
        "0-0:30": 30,
        "infinite": float("inf"),
    }.items():
        assert _minutes(text) == minutes


@pytest.mark.parametrize(
    ("precision", "supported", "gpu", "told"),
    [("bf16", 0, 0, 1), ("bf16", 1, 0, 0), ("bf16", 0, 1, 0), ("fp32", 0, 0, 0)],
)
def test_a_processor_that_is_slow_at_what_is_asked_for_is_told_of(
    precision, supported, gpu, told, monkeypatch, capsys
):
    trials = toml.load("smoke", [f"training.precision={precision}"]).trials
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(gpu))
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: bool(supported))
    _say_if_slow(trials)
    assert ("--set training.precision=fp32" in capsys.readouterr().err) == bool(told)
    _say_if_slow([trial for trial in trials if trial.attack])
    assert not capsys.readouterr().err
