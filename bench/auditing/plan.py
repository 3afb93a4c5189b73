"""Which attacks an audit runs, within its time and memory."""

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import torch

from smashbench.attacks import Attack
from smashbench.attacks.averaging import Averaging
from smashbench.attacks.base import OversizedError
from smashbench.attacks.class_mean import ClassMean
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.gmm import Gmm
from smashbench.attacks.knn import Knn
from smashbench.attacks.map import Map
from smashbench.attacks.mask_decoder import MaskDecoder
from smashbench.attacks.mean import Mean
from smashbench.attacks.query_decoder import QueryDecoder
from smashbench.attacks.ridge import Ridge
from smashbench.bench.auditing.budget import (
    ENOUGH_STEPS,
    NEVER,
    Clock,
    Fit,
    Pace,
    pace_of,
    ridge_bytes,
)
from smashbench.bench.auditing.given import Called, Dumped, differentiable
from smashbench.bench.auditing.world import AuditedAttack, LeftOutError, World
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS

MIXED = 1024
"""Most features of which a mixture keeps a covariance for every component."""
RIDGES = 6
"""Times a linear map that a mixture of them takes, about."""
WIDTH = 32
"""Of the decoders' trunks: half of the default, so that minutes are enough."""
DECODERS = ("decoder", "mask_decoder")
"""Of a curve: for features that are all there, and for some that are missing."""
ONLY_FEATURES = "needs the encoder, and there are features alone: give --model"
UNTIMELY = "does not fit in the time that is left: give a larger --budget"


@dataclass
class Situation:
    """What decides whether an attack can be run, and how.

    Args:
        world: what is attacked.
        clock: how much time is left.
        labelled: whether the classes of images are known.
        gigabytes: of memory.
        tune: whether heads are tuned to defenses.
        until: share of the time at which what is under way should be done.
        took: seconds of the attacks that were run.
        oversized: why a decoder does not fit in memory; empty where it does.
    """

    world: World
    clock: Clock
    labelled: bool
    gigabytes: float
    tune: bool = False
    until: float = 1.0
    took: dict[str, float] = field(default_factory=dict)
    oversized: str = ""

    @property
    def pairs(self) -> int:
        """Images of the attacker."""
        return len(self.world.z_aux)

    def seconds(self, share: float) -> float:
        """A share of the time that is left until then."""
        return share * max(0.0, self.until * self.clock.seconds - self.clock.spent)

    @cached_property
    def pace(self) -> Pace:
        """Of a decoder; one that does not fit in memory never ends."""
        z = self.world.victim().protect(self.world.z_aux[:256])
        try:
            return pace_of(z, self.world.split.aux.x[:256], WIDTH)
        except OversizedError as error:
            flat = "; maps and tokens should be given as such, not flattened"
            self.oversized = str(error) + flat * (len(self.world.feature_shape) == 1)
            return NEVER

    def fit(self, share: float) -> Fit | None:
        """The longest training of a decoder within a share of the time that is left."""
        return self.pace.within(self.seconds(share), self.pairs)

    def fit_at_any_rate(self, share: float) -> Fit | None:
        """The same; where the share is too small, the shortest training that is one, at the cost
        of half of all the time that is left."""
        least = self.pace.least(self.pairs) + 1e-6
        short = self.pace.within(least, self.pairs) if least < self.clock.left / 2 else None
        return self.fit(share) or short

    def ridge_gigabytes(self, pairs: int) -> float:
        """GiB that a linear reconstruction takes."""
        shapes = prod(self.world.feature_shape), prod(self.world.split.shape)
        return ridge_bytes(pairs, *shapes) / 2**30

    @cached_property
    def white_box(self) -> bool:
        """Whether an attack may hold the encoder and follow its gradients."""
        encoder = self.world.encoder
        if not isinstance(encoder, Called):
            return False
        try:
            deepcopy(encoder)
        except Exception:  # whatever keeps somebody's encoder from being copied
            return False
        return differentiable(encoder, self.world.split.test.x[:2])

    @cached_property
    def gradient_seconds(self) -> float:
        """Of one image through the encoder and back."""
        x = self.world.split.test.x[:8].clone().requires_grad_()
        started = time.perf_counter()
        torch.autograd.grad(self.world.encoder(x).square().sum(), x)
        return (time.perf_counter() - started) / len(x)


Choice = Attack | str
"""An attack to run, or why it is left out."""


def _class_mean(now: Situation) -> Choice:
    if now.world.head is None:
        return "needs the head: give --head"
    needed = 8 * now.world.split.classes * (now.pairs + prod(now.world.split.shape)) / 2**30
    if needed > now.gigabytes / 4:
        why = f"would need {needed:.1f} GiB for so many classes"
        return f"{why}, more than a quarter of --memory {now.gigabytes:g}: give a larger one"
    return ClassMean()


def _ridge(now: Situation) -> Choice:
    if (needed := now.ridge_gigabytes(now.pairs)) > now.gigabytes / 2:
        share = f"more than half of --memory {now.gigabytes:g}"
        return f"would need {needed:.1f} GiB, {share}: give a larger one"
    return Ridge()


def _gmm(now: Situation) -> Choice:
    if (features := prod(now.world.feature_shape)) > MIXED:
        return f"keeps a covariance of all features in every component: {features} are too many"
    return Gmm() if RIDGES * now.took.get("ridge", 0.0) < now.seconds(1.0) else UNTIMELY


def _options(fit: Fit) -> dict[str, Any]:
    """Of a decoder that trains as long as ``fit`` says, in at least three cycles."""
    cycle = max(10, min(200, fit.steps // 8))  # the first one counts twice: two networks have it
    steps = fit.steps - cycle
    return {"width": WIDTH, "batch_size": fit.batch, "cycle": cycle, "max_steps": steps}


def _decoder(now: Situation) -> Choice:
    alone = isinstance(now.world.encoder, Dumped) and not now.world.repeated
    fit = now.fit_at_any_rate(0.9 if alone else 0.5)
    return Decoder(**_options(fit)) if fit else now.oversized or UNTIMELY


def _query_decoder(now: Situation) -> Choice:
    if isinstance(now.world.encoder, Dumped):
        return ONLY_FEATURES
    fit = now.fit(0.3)  # half of it for the encoder
    return QueryDecoder(**_options(fit)) if fit else now.oversized or UNTIMELY


def _map(now: Situation) -> Choice:
    if isinstance(now.world.encoder, Dumped):
        return ONLY_FEATURES
    if not now.white_box:
        return "needs a copy of the encoder that gradients come through, and there is none"
    attack = Map(width=WIDTH)
    passes = attack.steps * (6 * attack.tuning + len(now.world.z_test))
    fit = now.pace.within(now.seconds(1.0) - passes * now.gradient_seconds, now.pairs)
    return Map(**_options(fit)) if fit else now.oversized or UNTIMELY


def _averaging(now: Situation) -> Choice:
    if not now.world.repeated:
        return "needs several releases of each image: give --repeated"
    fit = now.fit(0.5)
    return (
        Averaging(releases=now.world.z_aux.shape[1], **_options(fit))
        if fit
        else now.oversized or UNTIMELY
    )


PLANNED: Mapping[str, Callable[[Situation], Choice]] = {
    "mean": lambda now: Mean(),
    "class_mean": _class_mean,
    "ridge": _ridge,
    "knn": lambda now: Knn(),
    "decoder": _decoder,
    "query_decoder": _query_decoder,
    "averaging": _averaging,
    "map": _map,
    "gmm": _gmm,
}
"""The attacks in the order in which they are run: what matters most first."""


def attacked(now: Situation) -> tuple[list[AuditedAttack], dict[str, str]]:
    """Runs all attacks that can be run; returns them, and why others were left out.

    Raises:
        BenchError: none that sees one release could be run.
    """
    found, left_out = [], {}
    for name, choose in PLANNED.items():
        choice = choose(now)
        if isinstance(choice, str):
            left_out[name] = choice
            continue
        now.clock.say(f"attack {name}")
        try:
            found.append(_converged_if_long(now.world.attack(name, choice), choice))
            now.took[name] = found[-1].seconds
        except LeftOutError as error:
            left_out[name] = str(error)
    if not any(each.results.threat_model.one_release for each in found):
        why = "; ".join(f"{name}: {left_out[name]}" for name in left_out)
        raise BenchError(f"no attack could be run, so that nothing is shown: {why}")
    return found, left_out


def _converged_if_long(done: AuditedAttack, attack: Attack) -> AuditedAttack:
    """The same, but a fit of few steps has not converged, whatever its cycles gained: those of ten
    and twenty steps may well be no better than the closed form that they start from."""
    steps = getattr(attack, "max_steps", None)
    if steps is None or steps + getattr(attack, "cycle", 0) >= ENOUGH_STEPS:
        return done
    return done._replace(results=done.results.model_copy(update={"converged": False}))


def strongest(found: list[AuditedAttack], metric: str = "mse") -> AuditedAttack:
    """The attack with the least private mean of ``metric`` among those that see one release."""
    several = [each for each in found if each.results.threat_model.one_release]
    judge = METRICS[METRICS[metric].judge]
    choose = min if judge.better == "higher" else max
    return choose(several, key=lambda each: each.estimates[judge.name].mean)


def closed_forms(now: Situation, pairs: int) -> dict[str, Attack]:
    """What is run with so many pairs at every point of a curve, as far as memory goes; with fewer
    draws where features are many."""
    draws = 1 if prod(now.world.feature_shape) > MIXED else 2
    fits = now.ridge_gigabytes(pairs) <= now.gigabytes / 2
    return ({"ridge": Ridge(draws=draws)} if fits else {}) | {"knn": Knn(draws=2)}


def trained(fit: Fit | None, *, masks: bool = False) -> dict[str, Attack]:
    """What is run beside it where there is time: a decoder, which is shown the features that are
    missing where ``masks`` tell something."""
    if not fit:
        return {}
    return {DECODERS[masks]: (MaskDecoder if masks else Decoder)(**_options(fit))}
