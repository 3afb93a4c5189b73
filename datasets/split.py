"""Seeded, class-stratified splitting."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def stratified(y: Tensor, shares: Mapping[str, float], *, seed: int) -> dict[str, Tensor]:
    """Deals the indices of labels ``y`` (N,) to named parts, in each class by the same shares.

    The parts are disjoint and cover everything; each part's indices are sorted.
    """
    rng = np.random.default_rng(seed)
    dealt: dict[str, list[np.ndarray]] = {name: [] for name in shares}
    for label in np.unique(y.numpy()):
        members = rng.permutation(np.flatnonzero(y.numpy() == label))
        cuts = np.round(np.cumsum(list(shares.values()))[:-1] * len(members)).astype(int)
        for name, index in zip(shares, np.split(members, cuts), strict=True):
            dealt[name].append(index)
    return {name: torch.from_numpy(np.sort(np.concatenate(d))) for name, d in dealt.items()}
