"""Worker processes on this machine, one trial at a time in each.

Every worker has a pipe of its own and shares nothing with the others, so that a process which
dies at any moment, idle or starting or at work, costs no more than the trial it was at.
"""

import faulthandler
import os
import signal
import time
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread

from smashbench.bench.errors import BenchError
from smashbench.bench.run.attempt import Outcome, how_it_ended
from smashbench.bench.run.engines.base import Engine, RunOptions, Work
from smashbench.bench.suite.trial import Trial

PER_GPU = 4
"""Trials that share a GPU, unless told otherwise."""


class Local(Engine):
    """Processes of this machine: as many as cores, or with GPUs four for each of them."""

    def __init__(self, work: Work, options: RunOptions) -> None:
        super().__init__(work, options)
        if options.resources:
            names = ", ".join(options.resources)
            raise BenchError(f"--resource {names}: the local engine takes none; see --workers")
        self._workers: list[_Worker | None] = [None] * (options.workers or _default_workers())

    @property
    def workers(self) -> int:
        return len(self._workers)

    def submit(self, trial: Trial) -> None:
        number = next(n for n, worker in enumerate(self._workers) if not (worker and worker.trial))
        worker = self._workers[number]
        if not (worker and worker.take(trial)):
            worker = self._workers[number] = _Worker(number, self.work)
            worker.trial = trial  # whose end `wait` sees, should this one be gone, too
            worker.take(trial)

    def wait(self, seconds: float) -> list[tuple[Trial, Outcome]]:
        busy = [worker for worker in self._workers if worker and worker.trial]
        if not busy:
            time.sleep(seconds)
            return []
        signs = {sign: worker for worker in busy for sign in (worker.pipe, worker.process.sentinel)}
        ended = dict.fromkeys(signs[sign] for sign in wait(list(signs), seconds))  # type: ignore
        return [worker.result() for worker in ended]

    def close(self) -> None:
        """Ends the workers at once: what they had finished is on the disk."""
        for worker in filter(None, self._workers):
            worker.process.kill()
        for worker in filter(None, self._workers):
            worker.process.join()


class _Worker:
    def __init__(self, number: int, work: Work) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, number, work))
        self.process.start()
        theirs.close()
        self.trial: Trial | None = None

    def take(self, trial: Trial) -> bool:
        """Starts a trial; False if the process is not there any more."""
        try:
            self.pipe.send(trial)
        except OSError:
            return False
        self.trial = trial
        return True

    def result(self) -> tuple[Trial, Outcome]:
        """How the trial ended."""
        trial, self.trial = self.trial, None
        assert trial
        try:
            outcome: Outcome = self.pipe.recv()
            if outcome.state == "failed":
                self.process.kill()  # an error on a GPU, say, would spoil the next trial, too
                self.process.join()
        except (EOFError, OSError):
            self.process.join()
            outcome = Outcome("lost", how_it_ended(self.process.exitcode))
        return trial, outcome


def _default_workers() -> int:
    import torch

    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # macOS and Windows only tell how many there are
        cores = len(os.sched_getaffinity(0))
    return min(cores, PER_GPU * torch.cuda.device_count()) or cores


def _serve(pipe: "Connection[Outcome, Trial]", number: int, work: Work) -> None:
    """The life of a worker: trials in, outcomes out, until the pipe or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(OSError):  # Linux: out of memory, a trial goes first, not the whole run
        Path("/proc/self/oom_score_adj").write_text("1000")
    faulthandler.enable(2)
    import torch

    if count := torch.cuda.device_count():
        torch.cuda.set_device(number % count)
    while True:
        try:
            trial = pipe.recv()
        except EOFError:
            return
        outcome = work(trial)
        torch.cuda.empty_cache()  # what it keeps for its next trial, others on the GPU lack now
        pipe.send(outcome)


def _end_with_parent() -> None:
    """Ends this process as soon as its parent has ended, however that came."""
    if parent := parent_process():
        parent.join()
        os._exit(1)
