"""One attack on one trained victim, behind the wall, scored."""

from collections.abc import Sequence
from copy import deepcopy
from math import isfinite
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from smashbench.attacks import Attack, Knowledge
from smashbench.attacks.base import GRANTS, AttackError, WhiteBox, finite
from smashbench.bench.experiment.measure import chosen_images, pixels
from smashbench.bench.experiment.results import USERS, AttackResults, ThreatModel, Values
from smashbench.bench.experiment.scoring import Scores, flags_of, score, summarise
from smashbench.bench.experiment.seeds import release_seed, seed_for
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.wall import behind_wall, grant
from smashbench.datasets import Split

FLAT = 1e-4
"""Variance of the pixels of an image below which it shows nothing."""


class Target(NamedTuple):
    """A trained victim and its clean features (N, C', H', W') of aux and test images; the attacks
    on it share them."""

    victim: Victim
    z_aux: Tensor
    z_test: Tensor


class Attacked(NamedTuple):
    """What became of an attack."""

    results: AttackResults
    scores: Scores
    samples: dict[str, Tensor]
    """Reconstructions that are kept to be seen, uint8."""
    reconstructions: Tensor
    """All of them (N, C, H, W), uint8, to be scored again."""
    fit_seconds: float
    reconstruct_seconds: float


def attack_victim(
    target: Target, attack: Attack, label: str, split: Split, floor: Values, seeds: Sequence[int]
) -> Attacked:
    """Fits ``attack`` to what its threat model grants and scores what it makes of the releases of
    the test images.

    Args:
        target: what is attacked.
        attack: unfitted.
        label: the attack's name in the suite, which its random numbers depend on.
        split: the images.
        floor: mean metrics of the mean image.
        seeds: the victim's seed and, but for the first attack on it, the attack's own.
    """
    victim = target.victim
    if attack.releases > 1 and "repeats" not in attack.needs:
        raise AttackError("takes several releases of an image: name the grant 'repeats' in needs")

    def release() -> Tensor:
        torch.manual_seed(release_seed(split, *seeds))  # the same for every attack
        return finite(_repeated(victim, target.z_test, attack.releases)).clone()

    everything = Knowledge(  # copies: what an attack does to them touches no other trial
        images=split.aux.x.clone(),
        classes=split.classes,
        services={
            "draw": lambda index: victim.protect(target.z_aux[index]),
            "others": lambda index: victim.release(split.val.x[index]),
            "predict": victim.predict,
            "query": victim.release,
        },
        groups=None if split.aux.groups is None else split.aux.groups.clone(),
        others_count=len(split.val.x),
        white_box=_white_box(victim) if "client" in attack.needs else None,
        untrained=_untrained(victim.encoder) if "architecture" in attack.needs else None,
    )
    torch.manual_seed(seed_for("draw", label, *seeds, split.hash))
    seed = seed_for("attack", label, *seeds)
    done = behind_wall(attack, grant(attack.needs, everything), release, seed)
    guess = done.guess
    scores = score(split.test.x, guess)
    metrics = summarise(scores, floor)
    results = AttackResults(
        metrics=metrics,
        kind=attack.kind,
        converged=done.converged,
        curve=[float(f"{loss:.6g}") if isfinite(loss) else None for loss in done.history],
        flags=flags_of(metrics, floor, done.converged),
        threat_model=ThreatModel(
            grants=[grant for grant in GRANTS if grant in attack.needs],
            aux_images=len(split.aux.x),
            aux_overlap=0,
            noise_aware=attack.noise_aware,
            releases_per_image=attack.releases,
        ),
    )
    samples = samples_of(split, guess, scores["mse"])
    seconds = done.fit_seconds, done.reconstruct_seconds
    return Attacked(results, scores, samples, pixels(guess), *seconds)


def _white_box(victim: Victim) -> WhiteBox:
    defense = deepcopy(victim.defense)
    random = defense.transform_is == "random"
    return WhiteBox(deepcopy(victim.encoder), defense, defense.transform, random)


def _untrained(encoder: nn.Module) -> nn.Module:
    """A copy with weights drawn anew."""
    copy = deepcopy(encoder).requires_grad_(True)
    for module in copy.modules():
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
    return copy


def samples_of(split: Split, guess: Tensor, errors: np.ndarray) -> dict[str, Tensor]:
    """Reconstructions of the fixed images, and of the users who fare badly and as usual."""
    x = split.test.x
    contrast = x.flatten(1).var(1).clamp_min(FLAT)
    order = (torch.from_numpy(errors).to(x.device) / contrast).argsort()
    users = order[[round(q * (len(guess) - 1)) for q in USERS]]
    kept = {"samples": guess[chosen_images(split)], "users": guess[users]}
    return {name: pixels(images) for name, images in (kept | {"users_original": x[users]}).items()}


def _repeated(victim: Victim, z: Tensor, releases: int) -> Tensor:
    """Releases (N, C', H', W') of clean features z, or (N, n, C', H', W') for n > 1 of each."""
    if releases == 1:
        return victim.protect(z)
    return torch.stack([victim.protect(z) for _ in range(releases)], 1)
