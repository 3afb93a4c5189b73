"""What an experiment says, as typed values: of a trained victim, and of an attack on one."""

from itertools import pairwise
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import NonNegativeFloat, StringConstraints, model_validator

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.frozen import Frozen, Name, Number, Share

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of a summary."""
USERS = (0.05, 0.5)
"""Quantiles of the unexplained share of an image's own variance at which the users stand whose
images are kept."""
VICTIM, IMAGES = "victim", "images"
"""What is measured beside metrics: of a victim, and which images are kept."""
Seconds = Annotated[float, Ge(0), Lt(1e9)]
Text = Annotated[str, StringConstraints(max_length=200)]
RunFlag = Literal["not_converged", "attack_failed"]
Values = dict[Name, float]
"""Metric to value."""
Epoch = dict[Name, float | None]
"""Losses, accuracies and diagnostics of an epoch; None where a value was not finite."""
Floors = dict[Name, Values]
"""Predictor that needs no attack to its mean metrics."""
LEAST = 1e-12
"""Least error of the mean image: others are divided by it."""
SLACK = 1e-5
"""By how much rounding may move a value beyond its bounds."""


def check_bounds(metric: str, value: float) -> None:
    """Raises ValueError for what no mean of this metric can be; all goes for an unknown metric."""
    low, high = METRICS[metric].bounds if metric in METRICS else (value, value)
    if not low - SLACK <= value <= high + SLACK:
        raise ValueError(f"{metric} = {value:g} is outside [{low:g}, {high:g}]")


class Summary(Frozen):
    """Mean, standard deviation and quantiles over images."""

    mean: float
    std: NonNegativeFloat
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float

    @property
    def quantiles(self) -> tuple[float, ...]:
        return self.q05, self.q25, self.q50, self.q75, self.q95

    @model_validator(mode="after")
    def _ordered(self) -> "Summary":
        if any(low > high + SLACK for low, high in pairwise(self.quantiles)):
            raise ValueError("its quantiles are not in order")
        return self


class Bound(Frozen):
    """A lower bound on the mean squared error per pixel, and the prior's part in it."""

    mse: NonNegativeFloat
    prior: NonNegativeFloat
    """The bound if nothing were sent."""


class DiagnosticFacts(Frozen):
    """How a diagnostic is shown, as its defense declares it (``defenses.base.Diagnostic``)."""

    label: Text
    logarithmic: bool = False
    column: bool = False


class DefenseFacts(Frozen):
    """What a defense declares about itself, so that a report needs no code of its own for it."""

    role: Literal["control", "baseline", "defense"]
    group: Text = "other"
    """Older records lack it."""
    noise: NonNegativeFloat
    """Standard deviation of the Gaussian noise in a release."""
    diagnostics: dict[Name, DiagnosticFacts]


class VictimMetrics(Frozen):
    """How useful a victim is."""

    accuracy: Share
    chance: Share
    """Accuracy of always naming the most frequent class."""


class VictimResults(Frozen):
    """What is known of a victim before anyone attacks it."""

    facts: DefenseFacts
    metrics: VictimMetrics
    floors: Floors
    bound: Bound | None
    optimum: Values | None
    """Metrics of the best possible reconstruction, where it is known."""
    left_out: dict[Name, Text] = {}
    """What was not measured, with the reason."""
    randomized: bool
    payload: Annotated[Number, Gt(0)]
    """Bits that are sent for an image."""
    client_parameters: Number
    client_multiply_adds: Number
    """Of convolutions and matrix products, for an image."""
    history: list[Epoch]

    @model_validator(mode="after")
    def _possible(self) -> "VictimResults":
        least = self.floors.get("mean_image", {}).get("mse", 0.0)
        if not LEAST <= least <= 1:
            raise ValueError(f"floors.mean_image.mse = {least:g} should be from {LEAST:g} to 1")
        for values in (*self.floors.values(), self.optimum or {}):
            for name, value in values.items():
                check_bounds(name, value)
        return self


class ThreatModel(Frozen):
    """What the attacker had."""

    grants: list[Name]
    """What it was granted beyond images of its own, see ``attacks.base.Knowledge``."""
    aux_images: Annotated[Number, Gt(0)]
    aux_overlap: Number
    """How many of them the victim was trained on."""
    noise_aware: bool
    releases_per_image: Annotated[int, Ge(1), Le(10_000)]

    @property
    def knowledge(self) -> str:
        """``pairs + query``."""
        return " + ".join(self.grants) or "images of its own"

    @property
    def one_release(self) -> bool:
        """Whether it saw one release of an image: several are another threat, and no worst case."""
        return self.releases_per_image == 1


class AttackResults(Frozen):
    """What an attack achieved."""

    metrics: dict[Name, Summary]
    means: Values = {}
    """Over the images, of collective metrics."""
    rescored: list[Name] = []
    """The metrics that were computed later, from reconstructions kept in 8 bits."""
    kind: Literal["floor", "closed_form", "trained"]
    converged: bool
    curve: list[float | None]
    """The attacker's own validation loss, epoch by epoch."""
    flags: list[RunFlag]
    threat_model: ThreatModel

    @property
    def own_error(self) -> float | None:
        """The lowest of the curve."""
        return min((loss for loss in self.curve if loss is not None), default=None)

    @model_validator(mode="after")
    def _possible(self) -> "AttackResults":
        if "mse" not in self.metrics:
            raise ValueError("metrics.mse: is missing")
        for name, summary in self.metrics.items():
            for value in (summary.mean, *summary.quantiles):
                check_bounds(name, value)
        for name, value in self.means.items():
            check_bounds(name, value)
        return self


class VictimSeconds(Frozen):
    """Time of a trial that trained a victim."""

    train: Seconds
    total: Seconds


class AttackSeconds(Frozen):
    """Time of a trial that attacked one."""

    fit: Seconds
    reconstruct: Seconds
    total: Seconds
