"""Metrics of all reconstructions together."""

from dataclasses import dataclass

from smashbench.bench.experiment.metrics.base import Metric


@dataclass(frozen=True, kw_only=True)
class Collective(Metric):
    """A metric whose value of an image depends on the other images that are scored: their mean is
    what it says, and the spread of the values says how certain that is.

    Tables give its worst case, and of a single attack its mean; of other metrics they give every
    attack, and quantiles over images.
    """
