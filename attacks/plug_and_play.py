"""Plug-and-play: the image that explains the release and that a denoiser leaves as it is."""

from itertools import islice
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor
from torch.nn.functional import mse_loss

from smashbench.attacks.convolutions import Convolutions, shifted
from smashbench.attacks.descent import descend
from smashbench.attacks.map import Map

LOUDEST = 0.25
"""Largest standard deviation of the noise that the denoiser learns to remove."""


class PlugAndPlay(Map):
    """``Map`` with a denoiser D for its prior, in place of total variation: the gradient of the
    prior is (x - D(x)) / rho^2 (regularisation by denoising, Romano et al., SIAM J. Imaging
    Sciences 2017, eq. 15; plug-and-play, Venkatakrishnan et al., GlobalSIP 2013).

    D is a convolutional network that is fitted to the attacker's images, shifted and mirrored,
    with noise of a standard deviation that is drawn anew for every image, up to .25. It is not told
    which.

    Args:
        denoiser_width: channels of D.
        denoiser_steps: its training steps.
        options: those of ``Map``.
    """

    weights: ClassVar[tuple[float, ...]] = (0.0, 0.1, 0.3, 1.0)

    def __init__(
        self,
        *,
        denoiser_width: Annotated[int, Ge(8)] = 32,
        denoiser_steps: Annotated[int, Ge(1)] = 1000,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.denoiser_width, self.denoiser_steps = denoiser_width, denoiser_steps

    def fit_prior(self, images: Tensor) -> None:
        channels, *size = images.shape[1:]
        noise_in = Convolutions(channels, channels, size, self.denoiser_width).to(images.device)
        every = torch.arange(len(images), device=images.device)

        def loss(index: Tensor) -> Tensor:
            x = shifted(images[index])
            noise = LOUDEST * torch.rand_like(x[:, :1, :1, :1]) * torch.randn_like(x)
            return mse_loss(noise_in(x + noise - 0.5), noise)

        losses = map(loss, islice(self._batches(every), self.denoiser_steps))
        descend(noise_in, losses, self.denoiser_steps, lr=self.lr, adam_lr=self.adam_lr)
        self.noise_in_ = noise_in.requires_grad_(False)

    def away(self, x: Tensor) -> Tensor:
        found: Tensor = self.noise_in_(x - 0.5) / self.rho_**2
        return found
