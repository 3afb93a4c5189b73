"""Unrolled optimisation: a few steps through the encoder, whose rule is learned."""

from itertools import islice
from typing import Annotated, Any, Self

import torch
from annotated_types import Ge
from torch import Tensor
from torch.nn.functional import mse_loss

from smashbench.attacks.base import Knowledge, WhiteBox, finite, releases
from smashbench.attacks.convolutions import Convolutions, shifted
from smashbench.attacks.descent import descend
from smashbench.attacks.query_decoder import QueryDecoder

CHUNK = 100
"""Images refined at once."""


class Unrolled(QueryDecoder):
    """White-box optimisation of the image with a learned rule, started from a ``QueryDecoder``
    (learned gradient descent: Adler and Oktem, Inverse Problems 2017; Aggarwal et al., MoDL, IEEE
    TMI 2019).

    x_0 is what the decoder makes of z~, and

        x_{k+1} = x_k + rho g((x_k - x_0) / rho, u J'(z~ - f(x_k)), x_0),

    with f(x) the transformed features of x, J its Jacobian and g one network for all k, which
    starts at zero and is trained on the squared error of the last x. rho is the error of x_0 on the
    attacker's validation images, 1 / u the root mean square of J'(z~ - f(x_0)) there. Deviations:
    no gradient goes through J'(z~ - f(x_k)), so that no second derivative of the client is needed;
    and g learns from shifted images, which are newer to the decoder than its own training images,
    on which it errs too little. Where the rule does not help on the validation images, the
    decoder's images stay.

    Args:
        iterations: steps through the encoder.
        rule_width: channels of g, at half the resolution of the image where that is even.
        rule_steps: training steps of g.
        options: those of ``QueryDecoder``.
    """

    needs = frozenset({"pairs", "query", "client"})

    def __init__(
        self,
        *,
        iterations: Annotated[int, Ge(1)] = 3,
        rule_width: Annotated[int, Ge(8)] = 32,
        rule_steps: Annotated[int, Ge(1)] = 600,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.iterations, self.rule_width, self.rule_steps = iterations, rule_width, rule_steps

    def fit(self, knowledge: Knowledge) -> Self:
        client = knowledge.client
        fit, val = knowledge.parts(self.val_share)
        self.fit_parts(knowledge, fit, val)
        self.client_ = client
        z, x = releases(knowledge, val, 1)
        start = super().reconstruct(z)
        plain = float(mse_loss(start, x))
        self.rho_ = max(plain**0.5, 1e-4)
        towards = _towards(client, start, z)
        self.unit_ = 1 / float(towards.square().mean().sqrt().clamp_min(1e-12))
        rule = Convolutions(3 * x.shape[1], x.shape[1], x.shape[2:], self.rule_width).to(x.device)
        self._teach(rule, knowledge, fit)
        self.rule_: Convolutions | None = rule
        learned = float(mse_loss(self.reconstruct(z), x))
        if not learned < plain:
            self.rule_ = None
        self.history_.append(min(learned, plain))
        return self

    def _teach(self, rule: Convolutions, knowledge: Knowledge, fit: Tensor) -> None:
        def loss(index: Tensor) -> Tensor:
            x = shifted(knowledge.images[index])
            z = finite(knowledge.query(x))
            return mse_loss(self._refined(rule, z, QueryDecoder.reconstruct(self, z)), x)

        losses = map(loss, islice(self._batches(fit), self.rule_steps))
        descend(rule, losses, self.rule_steps, lr=self.lr, adam_lr=self.adam_lr)

    def reconstruct(self, z: Tensor) -> Tensor:
        start = super().reconstruct(z)
        if self.rule_ is None:
            return start
        with torch.no_grad():
            parts = zip(z.split(CHUNK), start.split(CHUNK), strict=True)
            refined = [self._refined(self.rule_, *part) for part in parts]
        return torch.cat(refined).clamp(0, 1)

    def _refined(self, rule: Convolutions, z: Tensor, start: Tensor) -> Tensor:
        moved = torch.zeros_like(start)
        for _ in range(self.iterations):
            towards = _towards(self.client_, start + self.rho_ * moved, z)
            moved = moved + rule(torch.cat([moved, self.unit_ * towards, start], 1))
        return start + self.rho_ * moved


def _towards(client: WhiteBox, x: Tensor, z: Tensor) -> Tensor:
    """J'(z - f(x)) of images x (B, C, H, W) and releases z, without a graph."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        miss = (z - client.transform(client.encoder(x))).square().sum() / 2
        if not miss.requires_grad:  # features that say nothing
            return torch.zeros_like(x)
        (down,) = torch.autograd.grad(miss, x)
    return -down
