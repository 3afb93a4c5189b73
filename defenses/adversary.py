"""What defenses share that train an adversary inside the training of their victim."""

from collections.abc import Callable
from math import ceil, isqrt, prod
from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from smashbench.defenses.base import Defense, Diagnostic, Step, full_precision
from smashbench.defenses.own_network import OwnNetwork

ONE_PLACE = 8
"""How many times as wide the adversary is for features of no place: what it knows of an image is
then in one vector."""


class Adversarial(Defense):
    """Penalties by an adversary of the defender's own, which learns to rebuild the images from what
    is released.

    The adversary takes one step of Adam on its error for every batch, on the very release that the
    head classifies. It begins with weights by the seed of the training. What it reaches in training
    is recorded: a defense whose adversary fails where the attacks afterwards do not has fooled its
    own adversary alone.

    Args:
        weight: of what the adversary's success costs.
        adversary_width: channels of the adversary.
        adversary_lr: learning rate of the adversary.
    """

    strength = "weight"
    group = "adversarial"
    diagnostics = {
        "adversary_mse": Diagnostic("MSE of the defender's own adversary", True, column=True)
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        weight: Annotated[float, Ge(0)] = 1.0,
        adversary_width: Annotated[int, Ge(1)] = 32,
        adversary_lr: Annotated[float, Gt(0)] = 1e-3,
    ) -> None:
        super().__init__(shape, classes)
        self.weight, self.adversary_width = weight, adversary_width
        seed = (torch.initial_seed() + 1) % 2**63  # not the stream that the victim draws from
        self.adversary = OwnNetwork(self._build, lr=adversary_lr, seed=seed)
        self.image_shape: tuple[int, ...] = ()
        """(C, H, W), known from the first step on."""

    def _build(self) -> nn.Module:
        return Rebuilder(self.shape, self.image_shape, self.adversary_width)

    def learn(self, step: Step, error: Callable[[Tensor, Tensor], Tensor] = mse_loss) -> Tensor:
        """One step of the adversary on the release of ``step``, which lowers ``error`` of its guess
        and the images; the error before, detached."""
        self.image_shape = tuple(step.images.shape[1:])
        images = step.images.detach().float()
        with full_precision(step.released) as released:
            return self.adversary.train_step(released, lambda guess: error(guess, images))

    def guess(self, released: Tensor) -> Tensor:
        """What the adversary makes (B, C, H, W) of releases; gradients reach these alone."""
        with full_precision(released) as z:
            return self.adversary(z)

    def progress(self) -> dict[str, Any]:
        return {"image_shape": list(self.image_shape), "adversary": self.adversary.progress()}

    def resume(self, progress: dict[str, Any]) -> None:
        self.image_shape = tuple(progress["image_shape"])
        self.adversary.resume(progress["adversary"])


class Rebuilder(nn.Module):
    """Three convolutions at the resolution of the features, and a pixel shuffle.

    Args:
        shape: of the features: a map, T = n^2 tokens, those and a class token before them, which is
            left out, or anything else, which is taken as one place.
        image_shape: (C, H, W).
        width: channels; of one place ``ONE_PLACE`` times as many.
    """

    def __init__(self, shape: tuple[int, ...], image_shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        channels, rows, columns = self.map_shape = _map_shape(shape)
        colours, height, across = self.image_shape = image_shape
        factor = ceil(max(height / rows, across / columns))
        alone = rows * columns == 1
        kernel, padding, width = (1, 0, ONE_PLACE * width) if alone else (3, 1, width)
        self.layers = nn.Sequential(
            nn.Conv2d(channels, width, kernel, padding=padding),
            nn.SiLU(),
            nn.Conv2d(width, width, kernel, padding=padding),
            nn.SiLU(),
            nn.Conv2d(width, colours * factor**2, kernel, padding=padding),
            nn.PixelShuffle(factor),
            nn.Sigmoid(),
        )

    def forward(self, z: Tensor) -> Tensor:
        """Images (B, C, H, W) in (0, 1) from releases (B, ...)."""
        if z.ndim == 3 and self.map_shape[1] > 1:  # tokens
            z = z[:, -self.map_shape[1] * self.map_shape[2] :].mT
        image: Tensor = self.layers(4 * (z.reshape(-1, *self.map_shape) - 0.5))
        return image[:, :, : self.image_shape[1], : self.image_shape[2]]


def _map_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        for tokens in (shape[0], shape[0] - 1):
            if tokens and isqrt(tokens) ** 2 == tokens:
                return shape[1], isqrt(tokens), isqrt(tokens)
    return prod(shape), 1, 1


def mean_image_error(images: Tensor) -> Tensor:
    """The error of the mean image of a batch (B, C, H, W): what an adversary leaves that learned
    nothing."""
    return images.detach().float().var(0, correction=0).mean().clamp_min(1e-6)
