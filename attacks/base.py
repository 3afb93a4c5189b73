"""What an attack is, and what it is given."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self, get_args

import torch
from torch import Tensor, nn

Grant = Literal["pairs", "unpaired", "logits", "query", "client", "architecture", "repeats"]
"""What a threat model may grant; see ``Knowledge``."""
GRANTS: tuple[Grant, ...] = get_args(Grant)


class AttackError(Exception):
    """The attack cannot run on what it was given; the message says what it needs."""


class OversizedError(AttackError):
    """What is to be computed does not fit in memory; it was not begun."""


MEMORY = 4 * 2**30
"""Bytes that one computation may take. The same on every machine, so that results are, too."""


def require_memory(needed: float, what: str) -> None:
    """Refuses a computation before it is begun and a process is killed.

    Args:
        needed: bytes, by an estimate.
        what: the computation, with the sizes that decide.

    Raises:
        OversizedError: it needs more than ``MEMORY``.
    """
    if needed > MEMORY:
        gigabytes = f"{needed / 2**30:.1f} GiB, more than {MEMORY / 2**30:.0f}"
        raise OversizedError(f"{what} would need {gigabytes}")


class WhiteBox(NamedTuple):
    """What the grant ``client`` gives: the client itself.

    Args:
        encoder: images (B, C, H, W) in [0, 1] to features (B, ...); differentiable.
        defense: features to releases, drawn as the victim draws them; differentiable.
        transform: features to what noise of mean 0 is added to in a release; differentiable.
        random: whether two transforms of the same features differ.
    """

    encoder: Callable[[Tensor], Tensor]
    defense: Callable[[Tensor], Tensor]
    transform: Callable[[Tensor], Tensor]
    random: bool


@dataclass(frozen=True)
class Knowledge:
    """What the threat model grants. Every attacker has images of its own and knows the classes;
    the rest is a set of grants, and what is not granted is an error to ask for.

    ``pairs``: ``draw``, releases of the attacker's images. ``unpaired``: ``others``, releases of
    images that the attacker does not have. ``logits``: ``predict``, the head. ``query``: releases
    of images that the attacker makes up. ``client``: the client itself. ``architecture``: its
    encoder with other weights. ``repeats``: several releases of each image that is attacked.

    Args:
        images: (N, C, H, W) in [0, 1], disjoint from the victim's training and test images.
        classes: number of classes.
        services: functions by name; those of ``SERVICES`` that are granted.
        groups: (N,) which images belong together, where they are not independent, else None.
        others_count: how many other images ``others`` has releases of.
        white_box: the client.
        untrained: its encoder with other weights.
    """

    images: Tensor
    classes: int
    services: Mapping[str, Callable[[Tensor], Tensor]]
    groups: Tensor | None = None
    others_count: int = 0
    white_box: WhiteBox | None = None
    untrained: nn.Module | None = None

    def draw(self, index: Tensor) -> Tensor:
        """Fresh releases (n, ...) of the images at ``index`` (n,); a randomised defense draws anew
        at every call, exactly as it does for the victim's users."""
        return self._service("draw", index)

    def others(self, index: Tensor) -> Tensor:
        """Fresh releases (n, ...) of other users' images, at ``index`` (n,) below
        ``others_count``; the attacker never sees these images."""
        return self._service("others", index)

    def predict(self, released: Tensor) -> Tensor:
        """The class (n,) that the head predicts for releases (n, ...)."""
        return self._service("predict", released)

    def query(self, images: Tensor) -> Tensor:
        """Fresh releases (n, ...) of images (n, C, H, W) in [0, 1]."""
        return self._service("query", images)

    @property
    def client(self) -> WhiteBox:
        """The client.

        Raises:
            AttackError: it is not granted.
        """
        if self.white_box is None:
            raise _not_granted("client")
        return self.white_box

    @property
    def architecture(self) -> nn.Module:
        """The client's encoder with weights drawn anew, the attacker's to train.

        Raises:
            AttackError: it is not granted.
        """
        if self.untrained is None:
            raise _not_granted("architecture")
        return self.untrained

    def _service(self, name: str, value: Tensor) -> Tensor:
        if name not in self.services:
            raise _not_granted(SERVICES[name])
        return self.services[name](value)

    def parts(self, share: float) -> tuple[Tensor, Tensor]:
        """Indices to fit on and the attacker's own validation indices, a random ``share``, or a
        little more where images come in groups: no group is in both, since its images are so alike
        that an error on them would be that of the fit. The same for every attack and seed, so that
        fits can be compared by their errors on it.

        Raises:
            AttackError: fewer than two images for either.
        """
        n, of = len(self.images), ""
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(n, generator=generator).to(self.images.device)
        held = torch.arange(n, device=order.device) < round(share * n)
        if self.groups is not None:
            _, group, sizes = self.groups.unique(return_inverse=True, return_counts=True)
            of = f" of {len(sizes)} groups"
            held = held_groups(sizes, round(share * n), generator)[group[order]]
        fit, val = order[~held], order[held]
        if min(len(fit), len(val)) < 2:
            raise AttackError(f"{n} aux images{of} are too few to hold out {share:.0%}: give more")
        return fit, val


def held_groups(sizes: Tensor, least: int, generator: torch.Generator) -> Tensor:
    """Which of some groups (G,) bool to hold out, given their sizes: in random order until at least
    so many images are held out. A group that would add more than that beyond it is passed over; so
    the fewest are held out where every group is so large."""
    held, count = torch.zeros_like(sizes).bool(), 0
    order = torch.randperm(len(sizes), generator=generator)
    for each, size in zip(order.tolist(), sizes[order.to(sizes.device)].tolist(), strict=True):
        if count < least and count + size <= 2 * least:
            held[each], count = True, count + size
    if not count:
        held[sizes.argmin()] = True
    return held


SERVICES: dict[str, Grant] = {
    "draw": "pairs",
    "others": "unpaired",
    "predict": "logits",
    "query": "query",
}
"""Functions of ``Knowledge``, and the grant that each needs."""


def _not_granted(grant: Grant) -> AttackError:
    return AttackError(f"needs the grant {grant!r}: name it in the attack's ``needs``")


class Attack(ABC):
    """A model-inversion attack. The constructor stores its keyword-only hyper-parameters and
    computes nothing; fitted attributes end in ``_``."""

    needs: frozenset[Grant] = frozenset({"pairs"})
    """What it must be granted; an instance may need more, depending on its options."""
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
        """Images (B, C, H, W) in [0, 1] from releases ``z`` (B, ...): maps (B, C', H', W'), vectors
        (B, D) or tokens (B, T, D); where ``releases`` is n > 1, from (B, n, ...)."""


def releases(knowledge: Knowledge, index: Tensor, draws: int) -> tuple[Tensor, Tensor]:
    """``draws`` fresh releases of each image in ``index`` (draws n, ...) and the images
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


CONSTANT = 1e-6
"""The share of the root mean square of features below which their spread counts as none."""


def resolution(z: Tensor) -> Tensor:
    """The spread () below which features count as constant: a millionth of the root mean square of
    releases ``z``, so that a small unit of what is sent hides nothing."""
    return (CONSTANT * z.square().mean().sqrt()).clamp_min(1e-18)


def finite(z: Tensor) -> Tensor:
    """Releases ``z``, as they are.

    Raises:
        AttackError: one is not finite.
    """
    if not z.isfinite().all():
        raise AttackError("the client sends features that are not finite: its training diverged")
    return z
