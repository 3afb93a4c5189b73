"""What a metric is: everything that scoring, intervals, tables, axes and the page ask of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from smashbench.bench.errors import BenchError

if TYPE_CHECKING:  # reports read this table, and need no PyTorch
    from torch import Tensor

Score = Callable[["Tensor", "Tensor"], "Tensor"]
"""Originals and reconstructions (N, C, H, W) in [0, 1] to values (N,)."""
Derive = Callable[[np.ndarray, float], np.ndarray]
"""Values of another metric, any shape, and its value for the mean image, to values of this one."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of reconstructions, scored per image.

    Args:
        name: in tables and records.
        label: in figures and on the page.
        unit: of its values; empty where there is none.
        better: whether a higher or a lower value is more private. The worst case of a row is the
            attack with the least private mean.
        bounds: what a mean can be.
        digits: after the point, where people read it.
        score: what computes it; None for one that is derived.
        of, derive: the scored metric that it is derived from, and how. Its worst case is that
            metric's.
        linear: whether the mean of a derived metric follows from the mean of the other.
        brief: whether it has a column in the short table that a run prints.
    """

    name: str
    label: str
    unit: str = ""
    better: Literal["higher", "lower"]
    bounds: tuple[float, float]
    digits: int
    score: Score | None = None
    of: str = ""
    derive: Derive | None = None
    linear: bool = False
    brief: bool = True

    @property
    def judge(self) -> str:
        """The scored metric that says which attack is the worst case."""
        return self.of or self.name

    @property
    def axis(self) -> str:
        """``PSNR, dB (lower is more private)``."""
        unit = f", {self.unit}" if self.unit else ""
        return f"{self.label}{unit} ({self.better} is more private)"

    def values(self, scores: Mapping[str, np.ndarray], floor: Mapping[str, float]) -> np.ndarray:
        """Values in float64, of the shape of the scores.

        Args:
            scores: of the scored metrics.
            floor: mean metrics of the mean image.
        """
        scored = scores[self.judge].astype(np.float64)
        if self.derive is None:
            return scored
        try:
            found = np.asarray(self.derive(scored, floor[self.judge]), np.float64)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise BenchError(f"the metric {self.name!r} cannot be derived: {cause}") from error
        if found.shape != scored.shape:
            shapes = f"{found.shape} instead of {scored.shape}"
            raise BenchError(f"the metric {self.name!r} is derived as {shapes}")
        return found
