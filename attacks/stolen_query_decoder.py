"""A decoder that makes up its own training images, and releases them with a copy of the client."""

from itertools import pairwise
from typing import Annotated, Any, Self

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn.functional import mse_loss, pixel_unshuffle, silu

from smashbench.attacks.base import AttackError, Knowledge, releases
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.descent import descend
from smashbench.attacks.network import as_map


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
        twice = as_map(z).unflatten(0, (-1, len(fit)))
        self.noise_ = ((twice[0] - twice[-1]).square().mean(0) / 2).sqrt()
        copy = Copy(x, as_map(z), self.copy_width).to(x.device)
        losses = (  # of one batch more than is used: the numbers of strength depend on it
            mse_loss(copy(knowledge.images[index]), as_map(knowledge.draw(index)))
            for index, _ in zip(self._batches(fit), range(self.copy_steps), strict=False)
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
        known = as_map(knowledge.draw(index[half:]))
        return torch.cat([copied, known]), torch.cat([made, x[half:]])


class Copy(nn.Module):
    """Images to what a client makes of them: four convolutions at the resolution of its features.

    Args:
        x: images (N, C, H, W).
        z: their releases (N, C', H', W'); H and W are multiples of H' and W'.
        width: channels between.

    Raises:
        AttackError: the features do not tile the image.
    """

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

    def forward(self, x: Tensor) -> Tensor:
        low = pixel_unshuffle(x - 0.5, self.factor)
        for layer in self.layers:
            low = silu(layer(low))
        features: Tensor = self.out(low)
        return features
