"""How leakage depends on what the attacker has, and on what would be done at inference."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import prod
from typing import NamedTuple

import torch

from smashbench.attacks import Attack
from smashbench.bench.auditing.plan import Situation, closed_forms, strongest, trained
from smashbench.bench.auditing.tuned import MOST_SECONDS, tuned_accuracy
from smashbench.bench.auditing.world import Attacked, LeftOutError, World
from smashbench.bench.report.statistics import Estimate
from smashbench.defenses import DEFENSES, Defense

FEWEST, FACTOR = 16, 4
"""Pairs of the first point of the knowledge curve, and how many times more each next one has."""


TUNING = 0.2
"""Share of the time for tuning heads, which is added to it."""


class Known(NamedTuple):
    """The strongest attack with so many pairs."""

    pairs: int
    attack: str
    estimates: dict[str, Estimate]


class WhatIf(NamedTuple):
    """The strongest attack on the encoder behind a defense at inference.

    Args:
        defense: its name; ``none`` for the encoder as it is.
        setting: in words, with its unit.
        attack: the strongest.
        estimates: its metrics.
        accuracy: of the head behind the defense; None where there is no head.
        tuned: of the head after it was tuned to the defense, where that was asked for.
    """

    defense: str
    setting: str
    attack: str
    estimates: dict[str, Estimate]
    accuracy: Estimate | None
    tuned: Estimate | None = None


def knowledge(now: Situation) -> tuple[list[Known], str]:
    """Points from few pairs to almost all, and what they fall short of, in words."""
    sizes: list[int] = []
    while (size := FEWEST * FACTOR ** len(sizes)) < 0.7 * now.pairs:
        sizes.append(size)
    points, decoded = [], 0
    for number, size in enumerate(sizes):
        now.clock.say(f"knowledge curve: {size} pairs")
        fit = now.pace.within(now.seconds(1 / (len(sizes) - number)), size)
        world = now.world.with_pairs(torch.arange(size))
        if found := _run(world, closed_forms(now, size) | trained(fit)):
            best = strongest(found)
            points.append(Known(size, best.name, best.estimates))
            decoded += fit is not None
    if decoded == len(points):
        return points, ""
    which = f"{len(points) - decoded} of {len(points)} points"
    return points, f"There was no time for a decoder at {which}: attackers can do better there."


def what_if(now: Situation) -> tuple[list[WhatIf], str]:
    """Points of every defense at several strengths, the encoder as it is first, and what they fall
    short of, in words. All are attacked alike; those that tell by what is missing are left out
    where there is no time for a decoder, which alone among the attacks sees that."""
    world = now.world
    settings = list(_settings(world))
    now.clock.say("what if: nothing is done")
    started = now.clock.spent
    plain = _run(world, closed_forms(now, now.pairs))
    closed = 2 * (now.clock.spent - started)  # noise and the like are drawn twice
    fit = now.pace.within(now.seconds(1 / (len(settings) + 1)) - closed, now.pairs)
    found = {0: (Setting("none", "", None), plain + _run(world, trained(fit)))}
    tried = [n for n, each in enumerate(settings) if fit or each.name not in MASKING]
    late = 0
    for place in sorted(tried, key=lambda n: settings[n].rank):
        setting = settings[place]
        if setting.rank and not now.clock.left:  # one of each is tried at any rate
            late += 1
            continue
        now.clock.say(f"what if: {setting.name} {setting.words}")
        attacks = closed_forms(now, now.pairs) | trained(fit)
        found[place + 1] = setting, _run(world, attacks, setting.defense)
    points = []
    for _, (setting, attacked) in sorted(found.items()):
        if attacked:
            best = strongest(attacked)
            known = world.head and now.labelled
            accuracy = world.accuracy(setting.defense) if known else None
            tuned = None
            if now.tune:
                now.clock.say(f"what if: the head is tuned to {setting.name} {setting.words}")
                seconds = min(MOST_SECONDS, TUNING * now.clock.seconds / len(found))
                tuned = tuned_accuracy(world, setting.defense, seconds)
            what = setting.name, setting.words, best.name, best.estimates, accuracy, tuned
            points.append(WhatIf(*what))
    return points, _short(late, prod(world.feature_shape), decoded=fit is not None)


def _short(late: int, features: int, *, decoded: bool) -> str:
    """What the points fall short of, in words."""
    told = []
    if late:
        told.append(f"The time was up before {late} settings were tried.")
    if not decoded:
        names = " and ".join(MASKING)
        told.append(
            "There was no time for decoders: attackers can do better than the closed forms here, "
            f"and {names} were left out, since closed forms do not see which features are missing."
        )
    if features > PROJECTED:
        told.append(f"Projections were left out: they are tried up to {PROJECTED} features.")
    return " ".join(told)


def _run(
    world: World, attacks: Mapping[str, Attack], defense: Defense | None = None
) -> list[Attacked]:
    """Those of the attacks that could be run."""
    found = []
    for name, attack in attacks.items():
        with suppress(LeftOutError):
            found.append(world.attack(name, attack, defense))
    return found


SWEPT: dict[str, tuple[float, ...]] = {
    "noise": (0.1, 0.3, 1.0),
    "quantise": (4, 2, 1),
    "topk": (0.5, 0.9),
    "dropout": (0.5, 0.9),
    "projection": (0.25, 0.05),
}
"""Defenses that work without training, and what of each is tried: noise in standard deviations of
the features, bits, shares that are dropped, and the share of directions that stay."""
PROJECTED = 1024
"""Most features that are projected: their covariance has to be decomposed."""


MASKING = ("topk", "dropout")
"""Defenses that tell something by which features are missing."""


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


def _settings(world: World) -> Iterator[Setting]:
    """Every defense at every strength, fitted to the attacker's features as a client would fit it
    to its own."""
    z = world.z_aux[:, 0] if world.repeated else world.z_aux  # one release of each image
    spread = float(z.flatten(1).std(0).square().mean().sqrt())
    for name, values in SWEPT.items():
        for place, value in enumerate(values):
            if name == "noise":
                words, options = f"{value:g} sd", {"noise": value * spread}
            elif name == "quantise":
                words, options = f"{value:g} bit" + "s" * (value > 1), {"bits": int(value)}
            elif name == "projection":
                if prod(world.feature_shape) > PROJECTED:
                    continue
                directions = max(1, round(value * z[0].numel()))
                words, options = f"{directions} directions", {"directions": directions}
            else:
                words, options = f"{value:.0%} dropped", {"rate": value}
            defense = DEFENSES[name](world.feature_shape, world.split.classes, **options)
            if defense.wants_refresh:
                defense.refresh(z, world.split.aux.y)
            yield Setting(name, words, defense, abs(place - len(values) // 2))
