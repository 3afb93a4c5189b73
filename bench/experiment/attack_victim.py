"""One attack on one trained victim, behind the wall, scored."""

from collections.abc import Sequence
from copy import deepcopy
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from smashbench.attacks import Attack, Knowledge
from smashbench.attacks.base import GRANTS, AttackError, WhiteBox, finite
from smashbench.bench.experiment.kept_images import pixels, samples_of
from smashbench.bench.experiment.results import AttackResults, ThreatModel, Values
from smashbench.bench.experiment.scoring import Scores, flags_of, score, summarise
from smashbench.bench.experiment.seeds import release_seed, seed_for
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.wall import behind_wall, grant
from smashbench.datasets import Part, Split


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
    target: Target,
    attack: Attack,
    label: str,
    split: Split,
    floor: Values,
    seeds: Sequence[int],
    pairs: int | None = None,
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
        pairs: of the attacker's images, how many it gets, a larger number the same and more; all
            unless told.

    Raises:
        AttackError: the attack needs what it may not have, or there are fewer pairs.
    """
    aux, z_aux = split.aux, target.z_aux
    if pairs is not None:
        index = _first(pairs, split)
        aux, z_aux = taken(aux, index), z_aux[index.to(z_aux.device)]
    victim = target.victim
    if attack.releases > 1 and "repeats" not in attack.needs:
        raise AttackError("takes several releases of an image: name the grant 'repeats' in needs")

    def release() -> Tensor:
        torch.manual_seed(release_seed(split, *seeds))  # the same for every attack of a seed
        return finite(_repeated(victim, target.z_test, attack.releases)).clone()

    torch.manual_seed(seed_for("architecture", label, *seeds))
    everything = Knowledge(  # the wall sends copies
        images=aux.x,
        classes=split.classes,
        services={
            "draw": lambda index: victim.protect(z_aux[index]),
            "others": lambda index: victim.release(split.val.x[index]),
            "predict": victim.predict,
            "query": victim.release,
        },
        groups=aux.groups,
        others_count=len(split.val.x),
        white_box=_white_box(victim) if "client" in attack.needs else None,
        untrained=victim.untrained() if "architecture" in attack.needs else None,
    )
    torch.manual_seed(seed_for("draw", label, *seeds, split.hash))
    seed = seed_for("attack", label, *seeds)
    done = behind_wall(attack, grant(attack.needs, everything), release, seed)
    guess = done.guess
    scores = score(split.test.x, guess)
    summaries = summarise(scores, floor)
    results = AttackResults(
        **summaries,
        kind=attack.kind,
        converged=done.converged,
        curve=[float(f"{loss:.6g}") if isfinite(loss) else None for loss in done.history],
        flags=flags_of(summaries["metrics"], floor, done.converged),
        threat_model=ThreatModel(
            grants=[grant for grant in GRANTS if grant in attack.needs],
            aux_images=len(aux.x),
            aux_overlap=split.overlap,
            noise_aware=attack.noise_aware,
            releases_per_image=attack.releases,
        ),
    )
    samples = samples_of(split, guess, scores["mse"])
    seconds = done.fit_seconds, done.reconstruct_seconds
    return Attacked(results, scores, samples, pixels(guess), *seconds)


def _first(pairs: int, split: Split) -> Tensor:
    """Indices of so many of the attacker's images, drawn at random, the same for every attack."""
    known = len(split.aux.x)
    if pairs > known:
        raise AttackError(f"pairs = {pairs}: the attacker has {known} images; give fewer")
    generator = torch.Generator().manual_seed(seed_for("pairs", split.hash))
    return torch.randperm(known, generator=generator)[:pairs]


def taken(part: Part, index: Tensor) -> Part:
    """The images of a part at ``index``."""
    index = index.to(part.x.device)
    return Part(part.x[index], part.y[index], None if part.groups is None else part.groups[index])


def _white_box(victim: Victim) -> WhiteBox:
    defense = victim.defense.deployed()
    random = victim.defense.transform_is == "random"
    return WhiteBox(deepcopy(victim.encoder), defense, defense.transform, random)


def _repeated(victim: Victim, z: Tensor, releases: int) -> Tensor:
    """Releases (N, C', H', W') of clean features z, or (N, n, C', H', W') for n > 1 of each."""
    if releases == 1:
        return victim.protect(z)
    return torch.stack([victim.protect(z) for _ in range(releases)], 1)
