"""Whether an encoder or a head is as a client or a server has it: in evaluation mode, and the same
for an image whatever else is in its batch."""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.module import register_module_forward_pre_hook

from smashbench.bench.auditing.given import Called
from smashbench.bench.errors import BenchError

IMAGES, BESIDE = 8, 2
"""Images of a batch that is tried, and how many of them are tried without the others."""
ROUNDING, DEPENDS = 1e-3, 0.1
"""Differences, in spreads of what is returned, from which on they are none of rounding, and from
which on none of a coarse number format that looks at the batch, either."""


@torch.no_grad()
def check_evaluated(called: Called, batch: Tensor) -> list[str]:
    """What is odd about an encoder or a head, in sentences. Modules are in evaluation mode by
    themselves (see ``Given``); a function may run a network that is not.

    Args:
        called: what is tried.
        batch: that it takes (n, ...).

    Raises:
        BenchError: it runs layers in training mode, or what it returns for an image depends on the
            other images of the batch.
    """
    called.eval()
    batch, what = batch[:IMAGES], called.what
    training: dict[str, None] = {}

    def watch(module: nn.Module, given: Any) -> None:
        drops = isinstance(module, _DropoutNd) and module.p > 0
        if module.training and (drops or isinstance(module, _BatchNorm)):
            training[type(module).__name__] = None

    with ExitStack() as stack:
        stack.callback(register_module_forward_pre_hook(watch).remove)
        together = called(batch)
    if training:
        raise BenchError(
            f"the {what} runs {' and '.join(training)} in training mode: call eval() on its "
            "network, or name the network itself. What the client is meant to drop: "
            "torch.nn.functional.dropout(z, p)"
        )
    again, alone = called(batch), called(batch[:BESIDE])
    spread = float(together.std())
    if not 0 < spread < torch.inf:
        return []
    if (apart := _distance(together, again) / spread) > ROUNDING:
        return [
            f"What the {what} returns for an image differs from call to call, by {apart:.1%} of "
            "its spread: noise that the client adds, as is assumed here, or a network in training "
            "mode, on which eval() was not called."
        ]
    if (apart := _distance(together[:BESIDE], alone) / spread) > DEPENDS:
        raise BenchError(
            f"the {what} returns something else for an image beside other images: it differs by "
            f"{apart:.0%} of its spread, and a client has one image. Statistics of the batch, as "
            "of a network in training mode? Call eval() on it, or name the network itself"
        )
    return []


def _distance(one: Tensor, other: Tensor) -> float:
    """Root of the mean square."""
    return float((one - other).square().mean().sqrt())
