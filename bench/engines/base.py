"""What an engine is."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.attempt import Outcome
from bench.trials import Trial

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Setting:
    """What every engine is told.

    Args:
        work: makes an attempt at a trial; can be pickled.
        folder: the results folder.
        workers: most trials at once; None for the engine's default.
        minutes: time limit of a trial, which ``work`` keeps itself.
        resources: what a trial needs, in the engine's own words.
    """

    work: Callable[[Trial], Outcome]
    folder: Path
    workers: int | None
    minutes: float
    resources: Mapping[str, str] = field(default_factory=dict)


class Engine(ABC):
    """Starts attempts and tells how they ended.

    Args:
        setting: see ``Setting``.

    Raises:
        BenchError: the engine is not installed, or it could never start such a trial.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        os.environ.update(ONE_THREAD)  # processes that are started inherit it

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
