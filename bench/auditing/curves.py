"""How leakage depends on what the attacker has, and on what would be done at inference."""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import torch

from smashbench.attacks import Attack
from smashbench.bench.auditing.budget import Fit
from smashbench.bench.auditing.plan import DECODERS, Situation, closed_forms, strongest, trained
from smashbench.bench.auditing.settings import PROJECTED, SWEPT, Setting, settings_of
from smashbench.bench.auditing.tuned import MOST_SECONDS, tuned_accuracy
from smashbench.bench.auditing.world import AuditedAttack, LeftOutError, World
from smashbench.bench.report.statistics import Estimate
from smashbench.defenses import Defense

FEWEST, FACTOR = 16, 4
"""Pairs of the first point of the knowledge curve, and how many times more each next one has."""


TUNING = 0.2
"""Share of the time for tuning heads, which is added to it."""


class CurvePoint(NamedTuple):
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


def knowledge(now: Situation) -> tuple[list[CurvePoint], str]:
    """Points from few pairs to almost all, and what they fall short of, in words."""
    sizes: list[int] = []
    while (size := FEWEST * FACTOR ** len(sizes)) < 0.7 * now.pairs:
        sizes.append(size)
    points, missing = [], []
    for number, size in enumerate(sizes):
        now.clock.say(f"knowledge curve: {size} pairs")
        fit = now.pace.within(now.seconds(1 / (len(sizes) - number)), size)
        world = now.world.with_pairs(torch.arange(size))
        found, lost = _run(world, closed_forms(now, size) | trained(fit))
        if found:
            best = strongest(found)
            points.append(CurvePoint(size, best.name, best.estimates))
            missing += _no_decoder(now, fit, lost)
    return points, _without(missing, f"{len(points)} points")


Tried = tuple[Setting, list[AuditedAttack]]
"""A defense at one strength, and the attacks on it that were run."""


def what_if(now: Situation) -> tuple[list[WhatIf], str]:
    """Points of every defense at several strengths, the encoder as it is first, and what they fall
    short of, in words."""
    tried, short = _attacked_settings(now)
    tried = [(setting, found) for setting, found in tried if found]
    return [_point(now, *each, of=len(tried)) for each in tried], short


def _attacked_settings(now: Situation) -> tuple[list[Tried], str]:
    """All settings, attacked alike, in the order of ``SWEPT``, and what is short of that. Those
    that tell by what is missing are left out where there is no decoder that sees it, which no other
    attack does."""
    world = now.world
    settings = list(settings_of(world))
    now.clock.say("what if: nothing is done")
    started = now.clock.spent
    plain, _ = _run(world, closed_forms(now, now.pairs))
    closed = 2 * (now.clock.spent - started)  # noise and the like are drawn twice
    fit = now.pace.within(now.seconds(1 / (len(settings) + 1)) - closed, now.pairs)
    decoded, lost = _run(world, trained(fit))
    by_place = {-1: (Setting("none", "", None), plain + decoded)}
    places = [n for n, each in enumerate(settings) if fit or not SWEPT[each.name].masks]
    late, left_out, missing = 0, [] if fit else [*MASKED], _no_decoder(now, fit, lost)
    for place in sorted(places, key=lambda n: settings[n].rank):
        setting = settings[place]
        if setting.rank and not now.clock.left:  # one of each is tried at any rate
            late += 1
            continue
        now.clock.say(f"what if: {setting.name} {setting.words}")
        masks = SWEPT[setting.name].masks
        attacks = closed_forms(now, now.pairs) | trained(fit, masks=masks)
        found, lost = _run(world, attacks, setting.defense)
        none = _no_decoder(now, fit, lost)
        if none and masks:
            left_out.append(f"{setting.name} {setting.words}")
            continue
        by_place[place] = setting, found
        missing += none
    short = _short(now, late, _without(missing, f"{len(by_place)} settings"), left_out)
    return [by_place[place] for place in sorted(by_place)], short


def _point(now: Situation, setting: Setting, attacked: list[AuditedAttack], *, of: int) -> WhatIf:
    """The strongest of the attacks on a setting, one ``of`` so many, and what the setting costs."""
    best = strongest(attacked)
    known = now.world.head and now.labelled
    accuracy = now.world.accuracy(setting.defense) if known else None
    tuned = None
    if now.tune:
        now.clock.say(f"what if: the head is tuned to {setting.name} {setting.words}")
        seconds = min(MOST_SECONDS, TUNING * now.clock.seconds / of)
        tuned = tuned_accuracy(now.world, setting.defense, seconds)
    return WhatIf(setting.name, setting.words, best.name, best.estimates, accuracy, tuned)


MASKED = tuple(name for name, swept in SWEPT.items() if swept.masks)
"""Defenses that tell something by what is missing."""


def _no_decoder(now: Situation, fit: Fit | None, lost: Mapping[str, str]) -> list[str]:
    """Why there is no decoder at a point; empty where there is one."""
    if fit is None:
        return [now.oversized or "no time"]
    return [lost[name] for name in DECODERS if name in lost]


def _without(missing: list[str], points: str) -> str:
    """That so many of the points have no decoder, and why; empty where all have one."""
    if not missing:
        return ""
    why = "; ".join(dict.fromkeys(missing))
    return f"There is no decoder at {len(missing)} of {points} ({why}): attackers can do better."


def _short(now: Situation, late: int, undecoded: str, left_out: list[str]) -> str:
    """What the points fall short of, in words."""
    told = [undecoded] if undecoded else []
    if late:
        told.append(f"The time was up before {late} settings were tried.")
    if left_out:
        told.append(
            f"Left out: {', '.join(left_out)}, since closed forms do not see which features are "
            "missing."
        )
    if prod(now.world.feature_shape) > PROJECTED:
        told.append(f"Projections were left out: they are tried up to {PROJECTED} features.")
    return " ".join(told)


def _run(
    world: World, attacks: Mapping[str, Attack], defense: Defense | None = None
) -> tuple[list[AuditedAttack], dict[str, str]]:
    """Those of the attacks that could be run, and why the others could not."""
    found, lost = [], {}
    for name, attack in attacks.items():
        try:
            found.append(world.attack(name, attack, defense))
        except LeftOutError as error:
            lost[name] = str(error)
    return found, lost
