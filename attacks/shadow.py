"""A decoder for a stand-in of the client, made from releases of images that nobody has."""

from copy import deepcopy
from dataclasses import replace
from math import prod
from typing import Annotated, Any, Self

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, softplus

from smashbench.attacks.base import AttackError, Knowledge, finite
from smashbench.attacks.decoder import Decoder

BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of the kernels, times the mean squared distance."""
QUIET = -4.0
"""Logarithm of the standard deviation that the noise of the stand-in has at the start."""
LOUD_RATE = 10.0
"""Learning rate of that logarithm, times that of the stand-in: 1,500 steps of Adam at .001 move a
number by 1.5 at most, which is too little to reach a standard deviation of .4."""


class Shadow(Decoder):
    """An attacker without pairs: it has the architecture of the client, images of its own and
    releases of other images (FORA: Xu et al., NDSS 2024, "A Stealthy Wrongdoer").

    A stand-in e for the client is trained so that its features of the attacker's images are
    distributed as the releases are:

        adversarial E[softplus(-D(e(x)))] + mmd MMD^2(e(x), z~),

    with D a discriminator and MMD the maximum mean discrepancy of five Gaussian kernels. The
    decoder is then fitted to the stand-in's features, as if they were releases. Deviations: the
    stand-in adds noise of a learned standard deviation per channel, since releases may be noisy;
    D has the loss of Goodfellow et al. (2014); the images carry no labels, so the head is
    of no use (SDAR, Zhu et al., 2023, has labels).

    Args:
        adversarial, mmd: weights of the two terms.
        shadow_steps: training steps of the stand-in.
        shadow_batch: images and releases of such a step.
        shadow_lr: learning rate of the stand-in; its discriminator has half of it.
        options: those of ``Decoder``.
    """

    needs = frozenset({"unpaired", "architecture"})

    def __init__(
        self,
        *,
        adversarial: Annotated[float, Ge(0)] = 0.2,
        mmd: Annotated[float, Ge(0)] = 0.8,
        shadow_steps: Annotated[int, Ge(1)] = 1500,
        shadow_batch: Annotated[int, Ge(2)] = 128,
        shadow_lr: Annotated[float, Gt(0)] = 1e-3,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.adversarial, self.mmd = adversarial, mmd
        self.shadow_steps, self.shadow_batch = shadow_steps, shadow_batch
        self.shadow_lr = shadow_lr

    def fit(self, knowledge: Knowledge) -> Self:
        stand_in = self._stand_in(knowledge)

        def draw(index: Tensor) -> Tensor:
            with torch.no_grad():
                return stand_in(knowledge.images[index])

        return super().fit(replace(knowledge, services={"draw": draw}))

    def _stand_in(self, knowledge: Knowledge) -> "_StandIn":
        x, others = knowledge.images, knowledge.others_count
        if min(len(x), others) < 2:
            raise AttackError(f"{len(x)} images and {others} releases of others' are too few")

        def drawn() -> Tensor:
            return knowledge.others(torch.randint(others, (self.shadow_batch,)))

        z = finite(drawn())  # once: a check in every step would wait for the device
        stand_in = _StandIn(knowledge.architecture, x[:2], z)
        judge = _Judge(z)
        groups: list[dict[str, Any]] = [
            {"params": stand_in.encoder.parameters()},
            {"params": [stand_in.loud], "lr": LOUD_RATE * self.shadow_lr},
        ]
        ours = torch.optim.Adam(groups, self.shadow_lr, betas=(0.5, 0.99))
        theirs = torch.optim.Adam(judge.parameters(), self.shadow_lr / 2, betas=(0.5, 0.99))
        stand_in.train()
        for _ in range(self.shadow_steps):
            z = drawn()
            made = stand_in(x[torch.randint(len(x), (self.shadow_batch,), device=x.device)])
            tells = softplus(-judge(z)).mean() + softplus(judge(made.detach())).mean()
            theirs.zero_grad()
            tells.backward()
            theirs.step()
            loss = self.mmd * discrepancy(made, z)
            loss = loss + self.adversarial * softplus(-judge(made)).mean()
            ours.zero_grad()
            loss.backward()
            ours.step()
        return stand_in.eval()


class _StandIn(nn.Module):
    """A client's encoder, and noise of a learned standard deviation per channel.

    Raises:
        AttackError: it makes features of another shape than the releases z.
    """

    def __init__(self, encoder: nn.Module, x: Tensor, z: Tensor) -> None:
        super().__init__()
        self.encoder = deepcopy(encoder)
        with torch.no_grad():
            shape = self.encoder(x).shape[1:]
        if shape != z.shape[1:]:
            raise AttackError(
                f"releases have the shape {tuple(z.shape[1:])}, and the features that the "
                f"architecture makes the shape {tuple(shape)}"
            )
        loud = torch.full((z.shape[1], *(1 for _ in z.shape[2:])), QUIET, device=z.device)
        self.loud = nn.Parameter(loud)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.encoder(x)
        return z + self.loud.exp() * torch.randn_like(z)


class _Judge(nn.Module):
    """The discriminator: features to a number that is higher for releases."""

    def __init__(self, z: Tensor) -> None:
        super().__init__()
        self.mean, self.std = z.mean(0), z.std(0).clamp_min(1e-3)
        self.first = nn.Linear(prod(z.shape[1:]), 256).to(z.device)
        self.second = nn.Linear(256, 1).to(z.device)

    def forward(self, z: Tensor) -> Tensor:
        hidden = leaky_relu(self.first(((z - self.mean) / self.std).flatten(1)), 0.2)
        told: Tensor = self.second(hidden)
        return told


def discrepancy(a: Tensor, b: Tensor) -> Tensor:
    """MMD^2 of samples a (n, ...) and b (m, ...), unbiased (Gretton et al., JMLR 2012, eq. 3), with
    the mean of Gaussian kernels whose bandwidths are multiples of the mean squared distance."""
    n, m = len(a), len(b)
    both = torch.cat([a, b]).flatten(1)
    both = both - both.mean(0)  # distances are differences of squares
    squares = both.square().sum(1)
    away = (squares[:, None] + squares - 2 * both @ both.T).clamp_min(0)
    unit = away.detach().sum() / (n + m) / (n + m - 1)
    kernels = [torch.exp(-away / (scale * unit).clamp_min(1e-12)) for scale in BANDWIDTHS]
    kernel = torch.stack(kernels).mean(0)
    within_a = (kernel[:n, :n].sum() - n) / (n * (n - 1))
    within_b = (kernel[n:, n:].sum() - m) / (m * (m - 1))
    return within_a + within_b - 2 * kernel[:n, n:].mean()
