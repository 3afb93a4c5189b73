"""Seeded, class-stratified splitting."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def stratified(y: Tensor, shares: Mapping[str, float], *, seed: int) -> dict[str, Tensor]:
    """Deals the indices of labels ``y`` (N,) to named parts, in each class by the same shares.

    The parts are disjoint and cover everything; each part's indices are sorted. Every part gets
    an image of every class that has one for each of them.
    """
    rng = np.random.default_rng(seed)
    dealt: dict[str, list[np.ndarray]] = {name: [] for name in shares}
    for label in np.unique(y.numpy()):
        members = rng.permutation(np.flatnonzero(y.numpy() == label))
        cuts = np.round(np.cumsum(list(shares.values()))[:-1] * len(members)).astype(int)
        if len(members) >= len(shares):
            least = np.arange(1, len(shares))
            cuts = np.clip(cuts, least, len(members) - least[::-1])
            cuts = np.maximum.accumulate(cuts - least) + least
            cuts = np.minimum(cuts, len(members) - least[::-1])
        for name, index in zip(shares, np.split(members, cuts), strict=True):
            dealt[name].append(index)
    return {name: torch.from_numpy(np.sort(np.concatenate(d))) for name, d in dealt.items()}
