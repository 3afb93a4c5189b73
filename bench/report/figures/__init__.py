"""The figures: one per file, listed by ``figures``."""

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.board import Board
from smashbench.bench.report.figures.attack_cost import ATTACK_COST
from smashbench.bench.report.figures.attacks import ATTACKS
from smashbench.bench.report.figures.base import Figure
from smashbench.bench.report.figures.diagnostics import DIAGNOSTICS
from smashbench.bench.report.figures.gallery import GALLERY
from smashbench.bench.report.figures.knowledge import KNOWLEDGE
from smashbench.bench.report.figures.optimum import OPTIMUM
from smashbench.bench.report.figures.over_noise import OVER_NOISE
from smashbench.bench.report.figures.reconstructions import RECONSTRUCTIONS
from smashbench.bench.report.figures.surrogates import SURROGATES
from smashbench.bench.report.figures.tradeoff import tradeoff
from smashbench.bench.report.figures.variances import VARIANCES

FIGURES: list[Figure[Board]] = [
    OVER_NOISE,
    GALLERY,
    RECONSTRUCTIONS,
    ATTACKS,
    KNOWLEDGE,
    DIAGNOSTICS,
    SURROGATES,
    VARIANCES,
    ATTACK_COST,
    OPTIMUM,
]
"""In the order of the page."""


def figures() -> list[Figure[Board]]:
    """All figures: a trade-off for each metric of the first table, and ``FIGURES``."""
    return [*(tradeoff(metric) for metric in METRICS.values() if metric.brief), *FIGURES]


__all__ = ["FIGURES", "Figure", "figures"]
