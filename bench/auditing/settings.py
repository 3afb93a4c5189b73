"""Defenses that an audit tries at inference: those that work without training."""

from collections.abc import Callable, Iterator
from math import inf, prod
from typing import Any, NamedTuple

from torch import Tensor

from smashbench.bench.auditing.world import World
from smashbench.defenses import DEFENSES, Defense

Described = tuple[str, dict[str, Any]]
"""A strength in words, and the options of the defense at it."""


class Swept(NamedTuple):
    """What is tried of a defense.

    Args:
        values: strengths, the mildest first.
        at: describes a strength, for features (N, ...) of the attacker's images.
        masks: it tells something by which features are missing.
        most_features: with more it is left out.
    """

    values: tuple[float, ...]
    at: Callable[[float, Tensor], Described]
    masks: bool = False
    most_features: float = inf


def _noise(value: float, z: Tensor) -> Described:
    spread = float(z.flatten(1).std(0).square().mean().sqrt())
    return f"{value:g} sd", {"noise": value * spread}


def _bits(value: float, z: Tensor) -> Described:
    return f"{value:g} bit" + "s" * (value > 1), {"bits": int(value)}


def _dropped(value: float, z: Tensor) -> Described:
    return f"{value:.0%} dropped", {"rate": value}


def _directions(value: float, z: Tensor) -> Described:
    directions = max(1, round(value * z[0].numel()))
    return f"{directions} directions", {"directions": directions}


PROJECTED = 1024
"""Most features that are projected: their covariance has to be decomposed."""
SWEPT: dict[str, Swept] = {
    "noise": Swept((0.1, 0.3, 1.0), _noise),
    "quantise": Swept((4, 2, 1), _bits),
    "topk": Swept((0.5, 0.9), _dropped, masks=True),
    "dropout": Swept((0.5, 0.9), _dropped, masks=True),
    "projection": Swept((0.25, 0.05), _directions, most_features=PROJECTED),
}
"""By the names of defenses: noise in standard deviations of the features, bits, shares that are
dropped, and the share of directions that stay."""


class Setting(NamedTuple):
    """A defense at one strength; ``defense`` is None where nothing is done.

    Args:
        name: of the defense.
        words: its strength.
        rank: those of lower rank are tried first.
    """

    name: str
    words: str
    defense: Defense | None
    rank: int = 0


def settings_of(world: World) -> Iterator[Setting]:
    """Every defense at every strength, fitted to the attacker's features as a client would fit it
    to its own."""
    z = world.z_aux[:, 0] if world.repeated else world.z_aux  # one release of each image
    for name, swept in SWEPT.items():
        if prod(world.feature_shape) > swept.most_features:
            continue
        for place, value in enumerate(swept.values):
            words, options = swept.at(value, z)
            defense = DEFENSES[name](world.feature_shape, world.split.classes, **options)
            defense.to(z.device)
            if defense.wants_refresh:
                defense.refresh(z, world.split.aux.y)
            yield Setting(name, words, defense, abs(place - len(swept.values) // 2))
