"""What a defense is. The base class does nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

Diagnostics = dict[str, Tensor]
"""Named 0-d tensors, detached; the training loop averages them over each epoch."""


Role = Literal["control", "baseline", "defense"]
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

    A defense overrides any of ``forward``, ``penalty``, ``targets`` and ``refresh``. Its
    hyper-parameters are keyword-only arguments of its constructor, with defaults; a suite may set
    each of them. One that trains a network of its own uses ``defenses.own_network``.

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

    diagnostics: Mapping[str, Diagnostic] = {}
    """What ``penalty`` reports and how it is shown. What is not declared is recorded, not shown."""

    noise: float = 0.0
    """Standard deviation of the Gaussian noise that ``forward`` adds; 0 if it adds none."""

    epoch: int = 0
    """Set by the training loop at the start of every epoch."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.shape, self.classes = shape, classes

    def forward(self, z: Tensor) -> Tensor:
        """What leaves the client for features ``z`` (B, ...), in training, in evaluation and under
        attack alike; same shape."""
        return z

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
        return False

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
            features: (N, ...), from an evaluation-mode pass without augmentation.
            labels: (N,).
        """
