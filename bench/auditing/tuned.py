"""A head that is tuned to a defense: what the server can do about it without another encoder."""

import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smashbench.bench.auditing.given import Called
from smashbench.bench.auditing.world import World
from smashbench.bench.errors import BenchError
from smashbench.bench.report.statistics import Estimate
from smashbench.defenses import Defense

BATCH, RATE, EPOCHS = 64, 1e-3, 20
"""Images of a step, Adam's rate, and the most passes over the images."""
MOST_SECONDS = 60.0
"""That a head is tuned for."""


def check_tunable(head: nn.Module | None, z: Tensor) -> None:
    """Refuses a head that no training can change.

    Args:
        head: None where there is none, or no labels.
        z: releases (n, ...) that it takes.

    Raises:
        BenchError: says what to give instead.
    """
    module = head.function if isinstance(head, Called) else None
    if not head or not isinstance(module, nn.Module) or not list(module.parameters()):
        raise BenchError(
            "--tune-head needs a --head that is a torch.nn.Module with parameters, and --labels"
        )
    try:
        copy = deepcopy(head).requires_grad_(True)
    except Exception as error:  # whatever keeps somebody's module from being copied
        why = f"the --head cannot be copied ({type(error).__name__}: {error})"
        raise BenchError(f"--tune-head: {why}; it is trained as a copy") from error
    with suppress(RuntimeError):
        found = torch.autograd.grad(copy(z[:2]).sum(), list(copy.parameters()), allow_unused=True)
        if any(slope is not None for slope in found):
            return
    raise BenchError(
        "--tune-head: no gradient reaches the parameters of the --head; take torch.no_grad, "
        "torch.inference_mode and detach out of its forward"
    )


def tuned_accuracy(world: World, defense: Defense | None, seconds: float) -> Estimate:
    """The accuracy of the head on releases of the scored images, after it alone was trained on
    releases of the attacker's images and their labels: Adam on the cross entropy, noise and masks
    drawn anew in every step, statistics of its normalisations as they are.

    Args:
        world: with a head that ``check_tunable`` accepts.
        defense: what the features pass; None for nothing.
        seconds: to stop after, at the end of a step.
    """
    head = deepcopy(world.head)
    assert head
    head.requires_grad_(True).eval()
    victim, y, since = world.victim(defense), world.split.aux.y, time.monotonic()
    optimiser = torch.optim.Adam(head.parameters(), RATE)
    generator = torch.Generator().manual_seed(world.seed)
    torch.manual_seed(world.seed)
    steps = (
        index
        for _ in range(EPOCHS)
        for index in torch.randperm(len(y), generator=generator).split(BATCH)
    )
    for index in steps:
        with torch.no_grad():
            z = victim.protect(world.z_aux[index])
        optimiser.zero_grad(set_to_none=True)
        cross_entropy(head(z), y[index]).backward()
        optimiser.step()
        if time.monotonic() - since > seconds:
            break
    return replace(world, head=head.requires_grad_(False)).accuracy(defense)
