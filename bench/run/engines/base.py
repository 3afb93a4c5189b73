"""What an engine is."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from smashbench.bench.processes import environment
from smashbench.bench.run.attempt import Outcome
from smashbench.bench.suite.trial import Trial

Work = Callable[[Trial], Outcome]
"""Makes an attempt at a trial; can be pickled."""


@dataclass(frozen=True)
class RunOptions:
    """Where and how to run.

    Args:
        folder: the results folder.
        data: the data folder.
        engine: name in ``ENGINES``.
        workers: most trials at once; None for the engine's default.
        minutes: time limit of a trial, which an attempt keeps itself.
        keep_outdated: records of code that has changed since are kept.
        resources: what a trial needs, in the engine's own words.
    """

    folder: Path
    data: Path | None = None
    engine: str = "local"
    workers: int | None = None
    minutes: float = 240
    keep_outdated: bool = False
    resources: Mapping[str, str] = field(default_factory=dict)


class Engine(ABC):
    """Starts attempts and tells how they ended.

    Args:
        work: what to do with each trial.
        options: how.

    Raises:
        BenchError: the engine is not installed, or it could never start such a trial.
    """

    def __init__(self, work: Work, options: RunOptions) -> None:
        self.work, self.options = work, options
        os.environ.update(environment())  # processes that are started inherit it

    @property
    @abstractmethod
    def workers(self) -> int:
        """Most trials at once."""

    @abstractmethod
    def submit(self, trial: Trial) -> None:
        """Starts an attempt, or queues it; never more than ``workers`` at once."""

    @abstractmethod
    def wait(self, seconds: float) -> list[tuple[Trial, Outcome]]:
        """The attempts that have ended. Returns when there is one, or after about ``seconds``."""

    @abstractmethod
    def close(self) -> None:
        """Ends whatever still runs."""
