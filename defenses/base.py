"""What a defense is. The base class does nothing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.amp.autocast_mode import is_autocast_available

Diagnostics = dict[str, Tensor]
"""Named 0-d tensors, detached; the training loop averages them over each epoch."""


Role = Literal["control", "baseline", "defense"]
Transform = Literal["smooth", "rough", "random"]
FLOAT = 32
"""Bits of a number that leaves the client, unless the defense sends less."""


@dataclass(frozen=True)
class Step:
    """One training step, as a defense sees it.

    Args:
        images: (B, C, H, W) in [0, 1], augmented.
        labels: (B,).
        features: clean features (B, ...), float32; their graph leads to the encoder.
        release: draws what leaves the client for features.
    """

    images: Tensor
    labels: Tensor
    features: Tensor
    release: Callable[[Tensor], Tensor] = field(repr=False)

    @cached_property
    def released(self) -> Tensor:
        """What leaves the client in this step, of the features' shape; the head classifies the
        same draw. It is drawn when it is first asked for, so that a defense which does not ask
        changes no random number."""
        return self.release(self.features)


class Diagnostic(NamedTuple):
    """How a diagnostic is shown, in figures and tables.

    Args:
        label: in words, with its unit.
        logarithmic: drawn on a logarithmic axis.
        column: its value in the last epoch is a column of the leaderboard.
    """

    label: str
    logarithmic: bool = False
    column: bool = False


class Defense(nn.Module):
    """The base of all defenses: the features leave the client as they are.

    A release is ``transform`` of the features, and then ``noise`` on it: apart, so that bounds,
    diagnostics and attacks know both. A defense sets ``noise`` and overrides any of ``transform``,
    ``penalty``, ``targets`` and ``refresh``. Its hyper-parameters are keyword-only arguments of its
    constructor, with defaults; a suite may set each of them. Options that do not go together are a
    ``ValueError`` of the constructor or of ``stand_on``, which a suite shows before anything runs.
    One that trains a network of its own uses ``defenses.own_network``.

    Args:
        shape: of the features of one image: (C', H', W') of a map, (D,) of a vector, (T, D) of
            tokens.
        classes: number of classes.
    """

    strength: ClassVar[str | None] = None
    """The hyper-parameter a suite sweeps; None where there is nothing to sweep."""

    role: ClassVar[Role] = "defense"
    """``control``: undefended, what the attacks must break. ``baseline``: plain noise, what every
    other defense is compared with."""

    group: ClassVar[str] = "other"
    """What kind of defense it is, by which tables, colours and legends put defenses together:
    ``baseline``, ``noise``, ``sparsity``, ``information``, ``adversarial``, ``CEM``, ``stacks``,
    ``warning`` for what looks like a defense and is none, or any other short text."""

    fills: bool = False
    """Whether it makes a number of full length of every feature, whatever an earlier part of a
    stack left out or rounded. Noise does, and need not say so."""

    diagnostics: Mapping[str, Diagnostic] = {}
    """What ``penalty`` reports and how it is shown. What is not declared is recorded, not shown."""

    noise: float = 0.0
    """Standard deviation of the noise that ``perturb`` adds to every feature; 0 if it adds none."""

    gaussian: bool = True
    """Whether that noise is Gaussian and independent: bounds hold for no other."""

    transform_is: Transform = "smooth"
    """``smooth``: autograd gives its derivative; ``rough``: it does not, as of
    rounding; ``random``: two transforms of the same features differ."""

    stacked: ClassVar[Mapping[str, Any]] = {}
    """Options that have another default in a stack of several defenses."""

    of_model: ClassVar[Mapping[str, str]] = {}
    """Options of the defense that decide one of the network, by name, and which."""

    pace: float = 1.0
    """Learning rate of the defense's own parameters, as a multiple of the victim's."""

    refit: Literal["clean", "epoch"] = "clean"
    """What ``refresh`` is given: features of the training images from an evaluation pass without
    augmentation, or those that the epoch before came across (augmented; no second pass)."""

    differentiates_images: bool = False
    """Whether ``penalty`` differentiates with respect to the images: ``Step.images`` then require
    a gradient."""

    epoch: int = 0
    """Set by the training loop at the start of every epoch."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.shape, self.classes = shape, classes

    def transform(self, z: Tensor) -> Tensor:
        """What is done to features ``z`` (B, ...) before noise is added; same shape."""
        return z

    def perturb(self, z: Tensor) -> Tensor:
        """Adds the noise to transformed features ``z`` (B, ...)."""
        return z + self.noise * torch.randn_like(z) if self.noise else z

    def forward(self, z: Tensor) -> Tensor:
        """What leaves the client for features ``z`` (B, ...), in training, in evaluation and under
        attack alike; same shape. Not to be overridden."""
        return self.perturb(self.transform(z))

    def stand_on(self, noise: float) -> None:
        """Is told the standard deviation of all the noise in the stack that it is part of: its own,
        if it is alone.

        Raises:
            ValueError: its options do not go with it.
        """

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        """The weighted regulariser, a scalar that is added to the cross entropy, and what is to be
        watched. The head gets no gradient from here."""
        return step.features.new_zeros(()), {}

    def targets(self, labels: Tensor) -> Tensor:
        """What the cross entropy compares the logits with: ``labels`` (B,), or probabilities
        (B, classes)."""
        return labels

    def payload(self, released: Tensor) -> int:
        """Bits that leave the client for one image, given releases (B, ...) of some."""
        return FLOAT * released[0].numel()

    @property
    def randomized(self) -> bool:
        """Whether two releases of the same features differ."""
        return self.noise > 0 or self.transform_is == "random"

    def deployed(self) -> "Defense":
        """A copy of what the client runs, for an attacker who holds the client: no statistics of
        training features, and no networks, that only penalties need."""
        kind = type(self)
        if kind.transform is not Defense.transform or kind.perturb is not Defense.perturb:
            return deepcopy(self)
        plain = Defense(self.shape, self.classes).train(self.training)
        plain.noise = self.noise
        return plain

    def progress(self) -> dict[str, Any]:
        """What a training that was interrupted needs to go on, beside parameters and buffers:
        tensors, numbers and texts, perhaps nested. A defense that counts its calls, say, or has an
        ``OwnNetwork``."""
        return {}

    def resume(self, progress: dict[str, Any]) -> None:
        """Goes on from what ``progress`` gave."""

    @property
    def wants_refresh(self) -> bool:
        """Whether ``refresh`` is to be called at the start of this epoch."""
        return False

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        """Refits statistics on all training features.

        Args:
            features: clean features (N, ...), by ``refit``.
            labels: (N,).
        """


@contextmanager
def full_precision(z: Tensor) -> Iterator[Tensor]:
    """Features in float32 (or float64, if they are), with autocast switched off."""
    known = is_autocast_available(z.device.type)
    with torch.autocast(z.device.type, enabled=False) if known else nullcontext():
        yield z if z.dtype == torch.float64 else z.float()
