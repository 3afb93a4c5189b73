"""Where the CPU-seconds of a grid go: ``python -m tests.perf_stages SUITE``.

Runs a suite in this process, trial by trial as a worker does, and reports it. A CPU-second counts
for the innermost stage that is running; what no stage claims is the rest. ``--set`` and ``--only``
are those of ``smashbench run``, to take less than a whole suite.
"""

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from smashbench.bench.experiment import attack_victim, make_victim, measure, train
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.report.write import write_report
from smashbench.bench.run import attempt, checkpoint, perform
from smashbench.bench.run.selection import choose, selection
from smashbench.bench.run.survey import survey
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml
from smashbench.bench.suite.trial import Trial
from smashbench.defenses.cem import Cem, Refitted
from tests.inside import cells_inside

TRAINING = "training: forward, backward, optimiser"
REST = "everything else"
STAGES: list[tuple[Any, str, str]] = [
    (perform, "_load", "images: read, dealt, hashed"),
    (perform, "source_of", "hashes of the code"),
    (checkpoint, "source_of", "hashes of the code"),
    (perform, "scoring_of", "hashes of the code"),
    (attempt, "standing_of", "survey of what is done"),
    (attempt, "counts", "survey of what is done"),
    (make_victim, "train", TRAINING),
    (train, "augment", "training: augmentation"),
    (Cem, "penalty", "training: penalties, forward"),
    (Refitted, "refresh", "training: refits"),
    (train, "watch", "training: watching"),
    (train, "captured", "training: checkpoints"),
    (make_victim, "measure_victim", "measuring a victim: the rest"),
    (measure, "lower_bound", "measuring a victim: bound"),
    (measure, "floors_of", "measuring a victim: floors"),
    (measure, "correct_share", "measuring a victim: accuracy"),
    (measure, "inferred", "measuring a victim: attributes"),
    (perform, "restored", "attacks: victim and its features"),
    (perform, "_target", "attacks: victim and its features"),
    (attack_victim, "score", "attacks: scoring (MSE, SSIM)"),
    (Store, "write", "writing records and arrays"),
    (Store, "write_arrays", "writing records and arrays"),
    (Store, "write_weights", "writing records and arrays"),
]
"""Functions, as attributes of what they are called through, and the stages that they are."""


class Clock:
    """CPU-seconds by stage."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._stages = [REST]
        self._since = time.process_time()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts for ``name`` what is done inside and is of no stage of its own."""
        self._tick()
        self._stages.append(name)
        try:
            yield
        finally:
            self._tick()
            self._stages.pop()

    def within(self, name: str) -> bool:
        """Whether a stage of this name is the innermost."""
        return self._stages[-1] == name

    def _tick(self) -> None:
        now = time.process_time()
        self.seconds[self._stages[-1]] += now - self._since
        self._since = now

    def timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            with self.stage(name):
                return function(*arguments, **options)

        return run


def stages(suite: str, settings: list[str], only: list[str], data: Path | None) -> Counter[str]:
    """CPU-seconds by stage of a suite, or of a part of it, that is run and reported here."""
    clock = Clock()
    with clock.stage("suite file"):
        found = toml.load(suite, settings)
    encode, walled = Victim.encode, attack_victim.behind_wall
    keeper_of, attacked = perform.keeper_of, attack_victim.attack_victim

    def encoding(victim: Victim, x: torch.Tensor) -> torch.Tensor:
        with (
            clock.stage("training: features for refits") if clock.within(TRAINING) else ExitStack()
        ):
            return encode(victim, x)

    def keeper(*arguments: Any) -> Any:
        kept = keeper_of(*arguments)
        return kept._replace(save=clock.timed(kept.save, "training: checkpoints"))

    def attack(target: Any, attack: Any, label: str, *rest: Any) -> Any:
        with patch.object(attack_victim, "behind_wall", clock.timed(walled, f"attack: {label}")):
            return attacked(target, attack, label, *rest)

    with tempfile.TemporaryDirectory() as folder, ExitStack() as patches:
        for holder, name, stage in STAGES:
            timed = clock.timed(getattr(holder, name), stage)
            patches.enter_context(patch.object(holder, name, timed))
        patches.enter_context(cells_inside())
        patches.enter_context(patch.object(Victim, "encode", encoding))
        patches.enter_context(patch.object(perform, "keeper_of", keeper))
        patches.enter_context(patch.object(perform, "attack_victim", attack))
        save_suite(found, Path(folder))
        with clock.stage("survey of what is done"):
            standings = survey(found, Store(Path(folder)))
        for trial in choose(found, standings, only=selection(found, only)):
            _attempted(trial, Path(folder), data)
        with clock.stage("report: tables, figures, page"):
            write_report([Path(folder)], Path(folder))
    with clock.stage(REST):
        return clock.seconds


def _attempted(trial: Trial, folder: Path, data: Path | None) -> None:
    outcome = attempt.attempt(trial, folder=folder, data=data, minutes=60)
    if outcome.state != "done":
        raise RuntimeError(f"{trial.label}: {outcome.state}: {outcome.text}")


def table(seconds: Counter[str]) -> list[str]:
    """A table of Markdown, the dearest stages first, with shares of all of them."""
    total = seconds.total()
    lines = ["| stage | CPU-seconds | share |", "|---|---|---|"]
    for name, spent in seconds.most_common():
        lines.append(f"| {name} | {spent:.2f} | {spent / total:.1%} |")
    return [*lines, f"| all | {total:.2f} | |"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the CPU-seconds of a grid go.")
    parser.add_argument("suite")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--only", action="append", default=[])
    choice = parser.parse_args()
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # imports the compiler
    import_module("sklearn.cluster"), import_module("sklearn.mixture")
    starting = time.process_time()
    root = os.environ.get("SMASHBENCH_DATA")
    spent = stages(choice.suite, choice.settings, choice.only, Path(root) if root else None)
    spent["start of a process: imports"] = starting
    print("\n".join(table(spent)))


if __name__ == "__main__":
    main()
