"""A decoder that makes up its own training images, and releases them with a copy of the client."""

from itertools import islice, pairwise
from math import inf
from typing import Annotated, Any, Self

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn.functional import mse_loss, pixel_unshuffle, silu

from smashbench.attacks.base import AttackError, Knowledge, releases
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.descent import descend
from smashbench.attacks.network import as_map, spread


class StolenQueryDecoder(Decoder):
    """A ``Decoder`` for an attacker who may not query the client and copies it instead (model
    stealing: Tramer et al., USENIX Security 2016; Orekondy et al., CVPR 2019): half of the images
    of every batch are mirrored and released by the copy.

    The copy is a convolutional network that is fitted to the attacker's own pairs. It predicts the
    mean release of an image; Gaussian noise is added to that, with the standard deviation of every
    feature by which two releases of one image differ.

    Args:
        copy_width: channels of the copy.
        copy_steps: its training steps.
        options: those of ``Decoder``.
    """

    def __init__(
        self,
        *,
        copy_width: Annotated[int, Ge(8)] = 64,
        copy_steps: Annotated[int, Ge(1)] = 400,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.copy_width, self.copy_steps = copy_width, copy_steps

    def fit(self, knowledge: Knowledge) -> Self:
        fit, val = knowledge.parts(self.val_share)
        z, x = releases(knowledge, fit, 2)
        z = as_map(z, x.shape[2:])
        twice = z.unflatten(0, (-1, len(fit)))
        self.noise_ = ((twice[0] - twice[-1]).square().mean(0) / 2).sqrt()
        copy = Copy(x, z, self.copy_width).to(x.device)
        losses = (
            copy.loss(knowledge.images[index], as_map(knowledge.draw(index), x.shape[2:]))
            for index in islice(self._batches(fit), self.copy_steps)
        )
        descend(copy, losses, self.copy_steps, lr=self.lr, adam_lr=self.adam_lr)
        self.copy_ = copy.requires_grad_(False)
        return self.fit_parts(knowledge, fit, val)

    def pairs(self, knowledge: Knowledge, index: Tensor) -> tuple[Tensor, Tensor]:
        x = knowledge.images[index]
        half = len(x) // 2
        made = x[:half].flip(3)
        copied = self.copy_(made)
        copied = copied + self.noise_ * torch.randn_like(copied)
        known = as_map(knowledge.draw(index[half:]), x.shape[2:])
        return torch.cat([copied, known]), torch.cat([made, x[half:]])


class Copy(nn.Module):
    """Images to what a client makes of them: four convolutions at the resolution of its features,
    which it learns in units of their spread.

    Args:
        x: images (N, C, H, W).
        z: their releases (N, C', H', W'); H and W are multiples of H' and W'.
        width: channels between.

    Raises:
        AttackError: the features do not tile the image.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, x: Tensor, z: Tensor, width: int) -> None:
        super().__init__()
        self.factor = x.shape[2] // z.shape[2]
        if not self.factor or x.shape[2:] != (z.shape[2] * self.factor, z.shape[3] * self.factor):
            raise AttackError(
                f"images of {tuple(x.shape[2:])} pixels are no whole multiple of features of "
                f"{tuple(z.shape[2:])}"
            )
        sizes = (x.shape[1] * self.factor**2, width, width, width)
        self.layers = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 3, padding=1) for inputs, outputs in pairwise(sizes)
        )
        self.out = nn.Conv2d(width, z.shape[1], 3, padding=1)
        self.register_buffer("mean", z.mean((0, 2, 3), keepdim=True))
        self.register_buffer("std", spread(z))

    def forward(self, x: Tensor) -> Tensor:
        """Features (B, C', H', W') of images."""
        return self.mean + self.std.where(self.std < inf, 0) * self._standardised(x)

    def loss(self, x: Tensor, z: Tensor) -> Tensor:
        """The mean squared error of what it makes of images, in units of the spread."""
        return mse_loss(self._standardised(x), (z - self.mean) / self.std)

    def _standardised(self, x: Tensor) -> Tensor:
        low = pixel_unshuffle(x - 0.5, self.factor)
        for layer in self.layers:
            low = silu(layer(low))
        features: Tensor = self.out(low)
        return features
