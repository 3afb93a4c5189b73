"""Runs a suite's trials in worker processes; what is finished is skipped."""

import os
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pebble import ProcessPool
from tqdm import tqdm

from attacks.base import AttackError
from bench.errors import BenchError
from bench.store import Store, read_checked
from bench.suite import Suite, Trial
from datasets import DatasetError


def finished(suite: Suite, store: Store) -> set[str]:
    """Keys of the trials that need no run: a successful record, made with the present code of its
    defense or attack and, for an attack, on the present training of its victim."""
    checkpoints: dict[str | None, str] = {}
    for trial in suite.victims:
        if (record := store.get(trial.key)) and record.get("source") == trial.source:
            checkpoints[trial.key] = record["checkpoint_sha256"]
    done = {trial.key for trial in suite.victims if trial.key in checkpoints}
    for trial in suite.attacks:
        if trial.parent in checkpoints and (record := store.get(trial.key)):
            made_with = (record.get("source"), record.get("victim_sha256"))
            if made_with == (trial.source, checkpoints[trial.parent]):
                done.add(trial.key)
    return done


def run(suite: Suite, folder: Path, data: Path | None, workers: int) -> int:
    """Runs every trial that is not ``finished``; attacks start when their victim is there.

    A trial that fails becomes a record with its cause, and the run goes on; later runs try it
    again. Returns the number of trials that failed.

    Raises:
        BenchError, DatasetError: something a person must change first.
    """
    store = Store(folder)
    done = finished(suite, store)
    todo = [trial for trial in suite.trials if trial.key not in done]
    for key in {str(trial.parent) for trial in todo if trial.parent in done}:
        read_checked(store.victim_path(key), store.read(key)["checkpoint_sha256"])
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # repeatable products on a GPU
    pool = ProcessPool(workers, context=get_context("spawn"), initializer=_start_worker)
    bar = tqdm(total=len(suite.trials), initial=len(done), unit="trial", disable=None)
    running: dict[Future[None], Trial] = {}
    failed = 0

    def start(ready: list[Trial]) -> None:
        for trial in ready:
            running[pool.schedule(_work, args=(trial, folder, data))] = trial

    try:
        start([trial for trial in todo if trial.parent is None or trial.parent in done])
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                trial = running.pop(future)
                attacks = [other for other in todo if other.parent == trial.key]
                bar.set_postfix_str(trial.label)
                bar.update()
                if (cause := _cause(future)) is None:
                    start(attacks)
                    continue
                for lost in [trial, *attacks]:
                    store.write(_failure(lost, cause))
                failed += 1 + len(attacks)
                bar.update(len(attacks))
                tqdm.write(f"failed: {trial.label}: {cause.splitlines()[-1]}")
    finally:
        bar.close()
        pool.stop()
        pool.join()
    return failed


def _start_worker() -> None:
    import torch

    torch.set_num_threads(1)


def _work(trial: Trial, folder: Path, data: Path | None) -> None:
    from bench.trial import run_trial

    run_trial(trial, folder, data)


def _cause(future: "Future[None]") -> str | None:
    """Why a trial failed, its last line the shortest form; None if it did not.

    Raises:
        BenchError, DatasetError: nothing else would run either.
    """
    error = future.exception()
    if error is None:
        return None
    if isinstance(error, (BenchError, DatasetError)):
        raise error
    if isinstance(error, AttackError):
        return f"AttackError: {error}"
    return getattr(error, "traceback", "") or "".join(traceback.format_exception(error))


def _failure(trial: Trial, cause: str) -> dict[str, Any]:
    record = {"key": trial.key, "status": "failed", "config": trial.config}
    return record | {"parent": trial.parent, "error": cause}
