"""One attempt at a trial, the same under every engine: claimed, logged and limited in time.

An attempt needs no state but the results folder and writes its own record, so that whatever can
start a process somewhere can run trials.
"""

import faulthandler
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError
from threadpoolctl import threadpool_limits

from smashbench.attacks.base import AttackError, OversizedError
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.results import AttackResults, VictimResults
from smashbench.bench.frozen import explain
from smashbench.bench.run.survey import COUNTS, counts, parent_of, standing_of
from smashbench.bench.store.failures import write_failure
from smashbench.bench.store.files import Stamp, stamp_of, unwritable
from smashbench.bench.store.locks import share, wait_for_writers
from smashbench.bench.store.record import FailedRecord
from smashbench.bench.store.store import Store
from smashbench.bench.suite.plugins import LOADED, load_installed, load_plugin
from smashbench.bench.suite.trial import Trial
from smashbench.datasets import DatasetError

TIMED_OUT = "Timeout ("
"""How ``faulthandler`` begins what it writes when the time is up."""
EDITED = (
    "its code was edited while this run was at work, or is another version's on this machine; "
    "what is finished stays: type the same command again"
)
TAIL = 80
"""Lines of a log that go into the record of a trial whose process was lost."""
LAST_WORDS = 10.0
"""Seconds that a lost process leaves its attack's own process to write down where it was."""


class Outcome(NamedTuple):
    """How an attempt ended.

    ``done``: there is a record that counts, or one that says that the trial does not fit in memory.
    ``failed``: there is a record with the cause. ``unscored``: it was not measured again, and its
    record is as it was. ``busy``: another process is at it. ``stop``: something a person must
    change before anything else can run.
    ``lost``: the process ended before it could say why.

    ``seconds``: what a trial took that was run or measured again now, where it is done.
    """

    state: Literal["done", "failed", "unscored", "busy", "stop", "lost"]
    text: str = ""
    seconds: float | None = None


def attempt(
    trial: Trial,
    *,
    folder: Path,
    data: Path | None,
    minutes: float,
    failures: Mapping[str, Stamp] | None = None,
    keep: bool = False,
    plugins: Sequence[Path] = (),
    sources: frozenset[str] | None = None,
) -> Outcome:
    """Runs a trial unless its record is there or another process is running it.

    Args:
        trial: what to run; an attack's victim must be trained.
        folder: the results folder.
        data: the data folder.
        minutes: time limit, after which this process ends, with the traceback of every thread
            in the trial's log.
        failures: the stamps of the records that said, when the run began, why trials had failed or
            were left out. A later one is another run's, which need not be repeated. None: of
            anything.
        keep: records of code that has changed since count as done.
        plugins: files of components that the suite needs.
        sources: hashes of all code that trials of the suite are of, when the run began. A file is
            read when the first trial needs it, and may have been edited by then, after it was
            imported. None: whatever is there.
    """
    from smashbench.bench.suite.source import source_of  # imports PyTorch

    store = Store(folder)
    try:
        load_installed()
        for path in plugins:
            _load(path)
        with store.claim(trial.key) as ours:
            if not ours:
                return Outcome("busy")
            standing = standing_of(trial, store, keep=keep)
            state = standing.state
            if state in COUNTS:
                return Outcome("done")
            stamp = stamp_of(store.record_path(trial.key))
            if failures is not None and stamp != failures.get(trial.key):
                if state == "failed":
                    return Outcome("failed", standing.cause)
                if state == "left_out":
                    return Outcome("done")
            rescored = state == "unscored"  # of which everything is there, without the weights
            if trial.parent and not rescored and not counts(parent_of(trial), store, keep=keep):
                raise BenchError(f"{trial.label}: victim {trial.parent} must be trained first")
            if sources is not None and source_of(trial) not in sources:
                raise BenchError(f"{trial.label}: {EDITED}")
            with _logged(trial, store, minutes):
                return _run(trial, store, data, again=rescored)
    except (BenchError, DatasetError) as error:
        return Outcome("stop", str(error))


def _load(path: Path) -> None:
    """Loads a plug-in, which another run in the folder may have replaced since this process did."""
    known = LOADED.get(path.name)
    try:
        load_plugin(path)
    except BenchError:
        if known and path.is_file() and path.read_bytes() != known.plugin.source:
            raise BenchError(f"plug-in {path}: {EDITED}") from None
        raise


def _run(trial: Trial, store: Store, data: Path | None, *, again: bool) -> Outcome:
    import torch

    from smashbench.bench.experiment.wall import LostError
    from smashbench.bench.run.perform import perform

    torch.set_num_threads(1)
    begun = time.monotonic()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # repeatable products on a GPU
    try:
        with threadpool_limits(1):  # scikit-learn's
            perform(trial, store.folder, data, again=again)
    except (BenchError, DatasetError):
        raise
    except LostError as error:
        return Outcome("lost", str(error))
    except OversizedError as error:
        if again:  # it was a metric's: what was attacked stays
            return not_scored(trial, store, str(error))
        write_failure(store, failure(trial, str(error), left_out=True))
        return Outcome("done")
    except AttackError as error:
        cause = f"AttackError: {error}"
    except ValidationError as error:  # of what a component says about itself
        lines = explain(error, "", AttackResults if trial.attack else VictimResults)
        cause = f"{traceback.format_exc().rstrip()}\n{'; '.join(lines)}"
    except Exception:
        cause = traceback.format_exc().rstrip()
    else:
        return Outcome("done", seconds=time.monotonic() - begun)
    print(cause, file=sys.stderr)
    if again:
        return not_scored(trial, store, cause.splitlines()[-1])
    write_failure(store, failure(trial, cause))
    return Outcome("failed", cause)


def not_scored(trial: Trial, store: Store, how: str) -> Outcome:
    """Why a finished trial could not be measured again: it stays as it is, and nothing is lost."""
    about = f"{trial.label} could not be scored again ({how}); its record stays as it is"
    return Outcome("unscored", f"{about}, {store.log_path(trial.key)} says more")


def failure(trial: Trial, cause: str, *, left_out: bool = False) -> FailedRecord:
    """The record of a trial that failed, or was left out; the last line of ``cause`` is its
    shortest form."""
    return FailedRecord(
        key=trial.key,
        config=trial.config,
        parent=trial.parent,
        error=cause or "no cause given",
        left_out=left_out,
    )


def how_it_ended(exitcode: int | None) -> str:
    """``killed by SIGKILL, perhaps for lack of memory`` for a process's exit code."""
    if exitcode is None or exitcode >= 0:
        return f"its process ended with exit code {exitcode}"
    known = -exitcode in set(signal.Signals)  # real-time signals have no names
    name = signal.Signals(-exitcode).name if known else f"signal {-exitcode}"
    hint = ", perhaps for lack of memory" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{hint}"


def log_size(trial: Trial, store: Store) -> int:
    """Bytes of a trial's log: where the next attempt at it begins."""
    path = store.log_path(trial.key)
    return path.stat().st_size if path.exists() else 0


def lost(trial: Trial, store: Store, how: str, *, since: int, keep: bool = False) -> Outcome:
    """What became of a trial whose process was lost; perhaps another run has taken it. Its log
    begins at ``since``; what is before is of other attempts."""
    with store.claim(trial.key) as ours:
        if not ours:
            return Outcome("busy")
        state = standing_of(trial, store, keep=keep).state
        if state in COUNTS:
            return Outcome("done")
        if state == "unscored":
            return not_scored(trial, store, how)
        cause = cause_of_loss(trial, store, how, since)
        write_failure(store, failure(trial, cause))
        return Outcome("failed", cause)


def cause_of_loss(trial: Trial, store: Store, how: str, since: int) -> str:
    """Why a process was lost: the end of the trial's log, and in the last line the reason."""
    wait_for_writers(store.log_path(trial.key), LAST_WORDS)
    try:
        lines = store.log_path(trial.key).read_bytes()[since:].decode(errors="replace").splitlines()
    except OSError:
        lines = []
    starts = [number for number, line in enumerate(lines) if line.startswith(_START)]
    lines = lines[starts[-1] :] if starts else []
    if timed_out := [line for line in lines if line.startswith(TIMED_OUT)]:
        limit = timed_out[0].removeprefix(TIMED_OUT).rstrip("!)")
        how = f"stopped at its time limit of {limit} (hours:minutes:seconds)"
    return "\n".join([*lines[-TAIL:], how])


_START = "== "


@contextmanager
def _logged(trial: Trial, store: Store, minutes: float) -> Iterator[None]:
    """Sends all that this process writes to the trial's log, and ends it when its time is up."""
    path = store.log_path(trial.key)
    start = f"{_START}{time.strftime('%Y-%m-%d %H:%M:%S')} {trial.label}"
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(1), os.dup(2)]
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as log:
                print(start, f"({trial.key}, process {os.getpid()} on {platform.node()})", file=log)
                log.flush()
                share(log)
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
        except OSError as error:
            raise unwritable(path, error) from None
        faulthandler.dump_traceback_later(60 * minutes, exit=True, file=2)
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in enumerate(before, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
