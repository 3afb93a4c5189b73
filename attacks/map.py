"""Maximum a posteriori: the image that explains the release, sought through the encoder."""

from collections.abc import Callable
from itertools import product
from typing import Annotated, Any, ClassVar, Self

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from smashbench.attacks.base import Knowledge, WhiteBox, releases, resolution
from smashbench.attacks.query_decoder import QueryDecoder

ANCHORS = (0.03, 0.3)
"""Candidates for the weight of the distance from the start."""


class Map(QueryDecoder):
    """White-box optimisation of the image, for a whole batch at once, started from a
    ``QueryDecoder``: who holds the client can release any image.

    It minimises

        sum_d (z~ - f(x))_d^2 / v_d + anchor sum_p (x - x_0)_p^2 / rho^2 + tv sum_p |grad x|_p / rho

    with f(x) the release expected for x, and v and rho^2 the mean squared residuals of release,
    for every channel, and of the image that the start x_0 leaves on the attacker's validation
    images. Noise that is added
    has mean 0; any other randomness of a defense is averaged over draws at every step
    (expectation over transformation, Athalye et al., ICML 2018). Both weights, and
    whether to move from the start at all, are chosen on the attacker's validation images.

    Args:
        steps: of Adam.
        rate: its step size, in units of rho; falls linearly to zero.
        draws: transforms per step that are averaged where they are random.
        tuning: validation images that choose the weights.
        options: those of ``QueryDecoder``.
    """

    needs = frozenset({"pairs", "query", "client"})
    weights: ClassVar[tuple[float, ...]] = (0.0, 0.1, 0.3)
    """Candidates for the weight of the prior."""

    def __init__(
        self,
        *,
        steps: Annotated[int, Ge(1)] = 50,
        rate: Annotated[float, Gt(0)] = 0.2,
        draws: Annotated[int, Ge(1)] = 4,
        tuning: Annotated[int, Ge(1)] = 64,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.steps, self.rate, self.draws, self.tuning = steps, rate, draws, tuning

    def fit(self, knowledge: Knowledge) -> Self:
        client = knowledge.client
        fit, val = knowledge.parts(self.val_share)
        self.fit_parts(knowledge, fit, val)
        self.fit_prior(knowledge.images[fit])
        z, x = releases(knowledge, val[: self.tuning], 1)
        self.expected_ = _expected(client, self.draws)
        start = super().reconstruct(z)
        with torch.no_grad():
            self.v_ = _by_channel((z - self.expected_(start)).square()).maximum(
                resolution(z).square()
            )
        self.rho_ = max(float((x - start).square().mean().sqrt()), 1e-4)
        self.weights_: tuple[float, float] | None = None
        best = float((start - x).square().mean())
        for weights in product(ANCHORS, self.weights):
            error = float((self._optimise(z, start, *weights) - x).square().mean())
            if error < best:
                best, self.weights_ = error, weights
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        start = super().reconstruct(z)
        return start if self.weights_ is None else self._optimise(z, start, *self.weights_)

    def fit_prior(self, images: Tensor) -> None:
        """Learns what images look like, from the attacker's (N, C, H, W)."""

    def away(self, x: Tensor) -> Tensor:
        """The gradient of the prior at images x (B, C, H, W)."""
        with torch.enable_grad():
            x = x.requires_grad_()
            (gradient,) = torch.autograd.grad(_total_variation(x) / self.rho_, x)
        return gradient

    def _optimise(self, z: Tensor, start: Tensor, anchor: float, weight: float) -> Tensor:
        x = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([x], self.rate * self.rho_, betas=(0.9, 0.99))
        schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, self.steps)
        for _ in range(self.steps):
            energy = ((z - self.expected_(x)).square() / self.v_).sum()
            energy = energy + anchor * (x - start).square().sum() / self.rho_**2
            (x.grad,) = torch.autograd.grad(energy, x)
            if weight:
                x.grad += weight * self.away(x.detach())
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                x.clamp_(0, 1)
        return x.detach()


def _by_channel(values: Tensor) -> Tensor:
    """The means over images and places of values (N, C', H', W'), of tokens (N, T, D) or of
    vectors (N, D), with as many axes."""
    places = (2, 3) if values.ndim == 4 else (1,) if values.ndim == 3 else ()
    return values.mean((0, *places), keepdim=True)


def _expected(client: WhiteBox, draws: int) -> Callable[[Tensor], Tensor]:
    """The release that images (B, C, H, W) lead to in the mean."""

    def mean(x: Tensor) -> Tensor:
        z = client.encoder(x)
        if not client.random:
            return client.transform(z)
        return torch.stack([client.transform(z) for _ in range(draws)]).mean(0)

    return mean


def _total_variation(x: Tensor) -> Tensor:
    """Sum of the lengths of the gradients of images (B, C, H, W)."""
    rows, columns = x.diff(dim=2)[..., :-1], x.diff(dim=3)[:, :, :-1]
    return (rows.square() + columns.square() + 1e-6).sqrt().sum()
