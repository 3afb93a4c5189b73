"""Jobs of a SLURM cluster, submitted through submitit.

Every node must see the checkout, its environment and the results folder under the same paths.
"""

import subprocess
import time
from math import ceil, inf
from typing import Any

from smashbench.bench.errors import BenchError
from smashbench.bench.run.attempt import Outcome
from smashbench.bench.run.engines.base import Engine, RunOptions, Work
from smashbench.bench.suite.trial import Trial

AT_ONCE = 500
"""Jobs in the queue at once, unless told otherwise."""
POLL = 2.0
"""Seconds between two looks at the queue."""
GRACE = 10.0
"""Seconds that a result may take to come into sight on a shared file system."""
PATIENCE = 600.0
"""Seconds for which the queue may be out of reach."""
ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT", "forgotten"),
)
"""States of a job that will not run any more; SLURM forgets it some minutes after."""


class Slurm(Engine):
    """One job per trial; resources: sbatch's long options (partition, mem, gres, ...), of which
    cpus_per_task is 1 unless told, and time a little more than the time limit."""

    def __init__(self, work: Work, options: RunOptions) -> None:
        super().__init__(work, options)
        try:
            import submitit
        except ImportError:
            raise BenchError("--engine slurm needs submitit: pip install submitit") from None
        needs = {"cpus_per_task": "1", "time": str(ceil(options.minutes) + 5)}
        needs |= {name.replace("-", "_"): value for name, value in options.resources.items()}
        _check(needs)
        limit = needs.pop("time")
        if (minutes := _minutes(limit)) == inf:
            raise BenchError(f"--resource time={limit}: give a number of minutes")
        self._executor = submitit.SlurmExecutor(options.folder / "logs" / "slurm")
        self._executor.update_parameters(
            job_name="smashbench", time=ceil(minutes), additional_parameters=needs
        )
        self._jobs: dict[str, tuple[Any, Trial]] = {}
        self._gone: dict[str, float] = {}
        self._answered = time.monotonic()

    @property
    def workers(self) -> int:
        return self.options.workers or AT_ONCE

    def submit(self, trial: Trial) -> None:
        try:
            job = self._executor.submit(self.work, trial)
        except RuntimeError as error:
            raise BenchError(f"--engine slurm: {error}") from None
        self._jobs[job.job_id] = (job, trial)

    def wait(self, seconds: float) -> list[tuple[Trial, Outcome]]:
        time.sleep(max(seconds, POLL))
        now = time.monotonic()
        try:
            seen = _run("squeue", "--me", "--noheader", "--states=all", "--format=%A %T").split()
        except BenchError:  # a busy controller does not always answer
            if now - self._answered > PATIENCE:
                raise
            return []
        self._answered = now
        states = dict(zip(seen[::2], seen[1::2], strict=True))
        ended = []
        for name, (job, trial) in list(self._jobs.items()):
            state = states.get(name, "forgotten")
            if state not in ENDED:
                self._gone.pop(name, None)  # one answer may have left it out
                continue
            if job.paths.result_pickle.exists():
                ended.append((trial, _outcome_of(job)))
            elif now - self._gone.setdefault(name, now) > GRACE:
                ended.append((trial, Outcome("lost", f"its SLURM job {name} ended: {state}")))
            else:
                continue
            del self._jobs[name]
        return ended

    def close(self) -> None:
        """Cancels the jobs that are left."""
        if self._jobs:
            _run("scancel", *self._jobs)


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise BenchError(
            f"--engine slurm: there is no {command[0]} on this machine; run it where "
            "SLURM's commands are, or leave out --engine"
        ) from None
    except subprocess.CalledProcessError as error:
        said = " ".join(error.stderr.split())
        raise BenchError(f"--engine slurm: {command[0]} says: {said}") from None
    return done.stdout


def _check(needs: dict[str, str]) -> None:
    """Refuses what SLURM would refuse, or leave in the queue without end."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in needs.items()]
    _run("sbatch", "--test-only", *options, "--wrap", "true")
    partition = [f"--partition={needs['partition']}"] if "partition" in needs else []
    limits = _run("sinfo", "--noheader", "--format=%P %l", *partition).split()
    allowed = {
        name.rstrip("*"): limit
        for name, limit in zip(limits[::2], limits[1::2], strict=True)
        if partition or name.endswith("*")
    }
    if allowed and all(_minutes(limit) < _minutes(needs["time"]) for limit in allowed.values()):
        there = ", ".join(f"{name} {limit}" for name, limit in allowed.items())
        raise BenchError(
            f"--resource time={needs['time']}: longer than the partition allows ({there}); "
            "see --time-limit"
        )


def _minutes(text: str) -> float:
    """``days-hours:minutes:seconds`` and SLURM's shorter forms, in minutes.

    >>> [_minutes(text) for text in ("90", "1:30:00", "2-00:00:00", "1-6", "infinite")]
    [90.0, 90.0, 2880.0, 1800.0, inf]
    """
    if text in ("infinite", "UNLIMITED", "n/a"):
        return float("inf")
    days, dash, rest = text.rpartition("-")
    parts = [float(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = [*parts, 0.0, 0.0][:3]
        return 1440 * float(days) + 60 * hours + minutes + seconds / 60
    if len(parts) == 3:
        return 60 * parts[0] + parts[1] + parts[2] / 60
    return parts[0] + (parts[1] / 60 if len(parts) == 2 else 0.0)


def _outcome_of(job: Any) -> Outcome:
    """What a job that ended has returned; lost where it raised instead, as on a node that lacks
    memory or the folder."""
    try:
        outcome: Outcome = job.result()
    except Exception as error:  # whatever an attempt may raise, as submitit repeats it
        last = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        return Outcome("lost", f"its SLURM job {job.job_id} raised: {last[0]}")
    return outcome
