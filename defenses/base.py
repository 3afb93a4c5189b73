"""What a defense is. The base class does nothing."""

from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor, nn

Diagnostics = dict[str, Tensor]
"""Named 0-d tensors, detached; the training loop averages them over each epoch."""


Role = Literal["control", "baseline", "defense"]


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

    A defense overrides any of ``forward``, ``penalty`` and ``refresh``. Its hyper-parameters are
    keyword-only arguments of its constructor, with defaults; a suite may set each of them.

    Args:
        shape: (C', H', W') of the features of one image.
        classes: number of classes.
    """

    strength: ClassVar[str | None] = None
    """The hyper-parameter a suite sweeps; None where there is nothing to sweep."""

    role: ClassVar[Role] = "defense"
    """``control``: undefended, what the attacks must break. ``baseline``: plain noise, what every
    other defense is compared with."""

    diagnostics: ClassVar[Mapping[str, Diagnostic]] = {}
    """What ``penalty`` reports and how it is shown. What is not declared is recorded, not shown."""

    noise: float = 0.0
    """Standard deviation of the Gaussian noise that ``forward`` adds; 0 if it adds none."""

    epoch: int = 0
    """Set by the training loop at the start of every epoch."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.shape, self.classes = shape, classes

    def forward(self, z: Tensor) -> Tensor:
        """What leaves the client for features ``z`` (B, C', H', W'), in training, in evaluation
        and under attack alike; same shape."""
        return z

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, Diagnostics]:
        """The weighted regulariser, a scalar that is added to the cross entropy.

        Args:
            z: features (B, C', H', W') before ``forward``; the head gets no gradient from here.
            y: labels (B,).
        """
        return z.new_zeros(()), {}

    @property
    def randomized(self) -> bool:
        """Whether two releases of the same features differ."""
        return False

    @property
    def wants_refresh(self) -> bool:
        """Whether ``refresh`` is to be called at the start of this epoch."""
        return False

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        """Refits statistics on all training features.

        Args:
            features: (N, C', H', W'), from an evaluation-mode pass without augmentation.
            labels: (N,).
        """
