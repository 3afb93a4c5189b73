"""What an attack is, and what it is given."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor

Level = Literal["pairs", "query", "white_box"]


class AttackError(Exception):
    """The attack cannot run on what it was given; the message says what it needs."""


class WhiteBox(NamedTuple):
    """What ``white_box`` grants beyond ``query``: the client itself.

    Args:
        encoder: images (B, C, H, W) in [0, 1] to features (B, C', H', W'); differentiable.
        defense: features to releases, drawn as the victim draws them; differentiable.
        noise: standard deviation s where a release is features + N(0, s^2), else 0.
    """

    encoder: Callable[[Tensor], Tensor]
    defense: Callable[[Tensor], Tensor]
    noise: float


@dataclass(frozen=True)
class Knowledge:
    """What the threat model grants; every level grants what the levels before it grant.

    ``pairs``: the attacker is the server. It owns the head, and images of its own with releases
    of them. ``query``: it also sees releases of images it makes up. ``white_box``: it also holds
    the client. What is not granted is None.

    Args:
        images: (N, C, H, W) in [0, 1], disjoint from the victim's training and test images.
        draw: indices (n,) of images to fresh releases (n, C', H', W'); a randomised defense
            draws anew at every call, exactly as it does for the victim's users.
        predict: releases to the class (n,) that the head predicts.
        classes: number of classes.
        query: images (n, C, H, W) in [0, 1] to fresh releases (``query``, ``white_box``).
        client: the client (``white_box``).
    """

    images: Tensor
    draw: Callable[[Tensor], Tensor]
    predict: Callable[[Tensor], Tensor]
    classes: int
    query: Callable[[Tensor], Tensor] | None = None
    client: WhiteBox | None = None

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
    noise_aware: ClassVar[bool] = True
    """Whether it is fitted to releases as the defense makes them, noise and all."""
    releases: int = 1
    """Releases of each image that ``reconstruct`` is given."""
    converged_: bool = True
    """False when the fit ended on its budget, before it stopped improving."""
    history_: Sequence[float] = ()
    """The attacker's own validation loss, epoch by epoch, where there are epochs."""

    @abstractmethod
    def fit(self, knowledge: Knowledge) -> Self:
        """Learns from what the threat model grants.

        Raises:
            AttackError: too few images, or features that are not finite.
        """

    @abstractmethod
    def reconstruct(self, z: Tensor) -> Tensor:
        """Images (B, C, H, W) in [0, 1] from releases ``z`` (B, C', H', W'); where ``releases`` is
        n > 1, from (B, n, C', H', W')."""


def releases(knowledge: Knowledge, index: Tensor, draws: int) -> tuple[Tensor, Tensor]:
    """``draws`` fresh releases of each image in ``index`` (draws n, C', H', W') and the images
    they belong to. Where two draws are equal, nothing is random and one is enough.

    Raises:
        AttackError: a release is not finite.
    """
    z = [finite(knowledge.draw(index))]
    for _ in range(draws - 1):
        z.append(finite(knowledge.draw(index)))
        if torch.equal(z[0], z[-1]):
            return z[0], knowledge.images[index]
    return torch.cat(z), knowledge.images[index].repeat(len(z), 1, 1, 1)


def finite(z: Tensor) -> Tensor:
    """Releases ``z``, as they are.

    Raises:
        AttackError: one is not finite.
    """
    if not z.isfinite().all():
        raise AttackError("the client sends features that are not finite: its training diverged")
    return z
