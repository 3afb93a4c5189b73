"""What an attack is, and what it is given."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

Level = Literal["pairs", "query", "white_box"]


class AttackError(Exception):
    """The attack cannot run on what it was given; the message says what it needs."""


@dataclass(frozen=True)
class Knowledge:
    """What the threat model ``pairs`` grants: the attacker's own images and releases of them.

    The attacker is the server: it also owns the head.

    Args:
        images: (N, C, H, W) in [0, 1], disjoint from the victim's training and test images.
        draw: indices (n,) of images to fresh releases (n, C', H', W'); a randomised defense
            draws anew at every call, exactly as it does for the victim's users.
        predict: releases to the class (n,) that the head predicts.
        classes: number of classes.
    """

    images: Tensor
    draw: Callable[[Tensor], Tensor]
    predict: Callable[[Tensor], Tensor]
    classes: int

    def parts(self, share: float) -> tuple[Tensor, Tensor]:
        """Indices to fit on and the attacker's own validation indices, a random ``share``.

        Raises:
            AttackError: fewer than two images for either.
        """
        n = len(self.images)
        held_out = round(share * n)
        if min(held_out, n - held_out) < 2:
            raise AttackError(f"{n} aux images are too few to hold out {share:.0%}: give more")
        order = torch.randperm(n).to(self.images.device)
        return order[held_out:], order[:held_out]


class Attack(ABC):
    """A model-inversion attack. The constructor stores its keyword-only hyper-parameters and
    computes nothing; fitted attributes end in ``_``."""

    level: ClassVar[Level] = "pairs"
    """The knowledge it needs."""
    kind: ClassVar[Literal["floor", "closed_form", "trained"]]
    """``floor`` ignores the features, ``closed_form`` needs no iterative training."""
    converged_: bool = True
    """False when the fit ended on its budget, before it stopped improving."""

    @abstractmethod
    def fit(self, knowledge: Knowledge) -> Self:
        """Learns from what the threat model grants.

        Raises:
            AttackError: too few images.
        """

    @abstractmethod
    def reconstruct(self, z: Tensor) -> Tensor:
        """Images (B, C, H, W) in [0, 1] from releases ``z`` (B, C', H', W')."""
