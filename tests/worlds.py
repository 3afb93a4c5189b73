"""Small worlds for attacks: images, what a client releases of them, and what is granted."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from smashbench.attacks import ATTACKS, Knowledge
from smashbench.attacks.base import WhiteBox


def world(x: Tensor, release: Callable[[Tensor], Tensor], classes: int = 2) -> Knowledge:
    with torch.random.fork_rng(devices=()):
        untrained = torch.nn.Conv2d(3, 3, 2, stride=2).to(x.device)
    return Knowledge(
        images=x,
        classes=classes,
        services={
            "draw": lambda index: release(x[index]),
            "predict": lambda z: (z.flatten(1).mean(1) > 0.5).long(),
            "query": release,
            "others": lambda index: release(x[index].flip(2)),
        },
        others_count=len(x),
        white_box=WhiteBox(release, lambda z: z, lambda z: z, random=False),
        untrained=untrained,
    )


def served(knowledge: Knowledge, **services: Callable[[Tensor], Tensor]) -> Knowledge:
    """The knowledge with other services."""
    return replace(knowledge, services={**knowledge.services, **services})


def images(n: int, size: int = 8) -> Tensor:
    """Correlated images inside (0, 1): a random low-frequency pattern."""
    low = torch.rand(n, 3, 2, 2)
    return torch.nn.functional.interpolate(low, (size, size), mode="bilinear") * 0.8 + 0.1


def blurred(noise: float) -> Callable[[Tensor], Tensor]:
    def release(x: Tensor) -> Tensor:
        z = torch.nn.functional.avg_pool2d(x, 2)
        return z + noise * torch.randn_like(z)

    return release


def error(attack, x: Tensor, release: Callable[[Tensor], Tensor]) -> float:
    return float((attack.reconstruct(release(x)) - x).square().mean())


QUICK = {"width": 8, "blocks": 1, "max_steps": 40, "batch_size": 16}
SMALL = {
    "decoder": QUICK,
    "query_decoder": QUICK,
    "stolen_query_decoder": QUICK | {"copy_steps": 10, "copy_width": 8},
    "mask_decoder": QUICK,
    "quantile_decoder": QUICK,
    "averaging": QUICK | {"releases": 1},
    "set_decoder": QUICK | {"releases": 1},
    "map": QUICK | {"steps": 5},
    "plug_and_play": QUICK | {"steps": 5, "denoiser_steps": 10, "denoiser_width": 8},
    "flow": {"width": 16, "blocks": 1, "cycle": 50, "max_steps": 100, "samples": 16, "euler": 4},
    "shadow": QUICK | {"shadow_steps": 20, "shadow_batch": 32},
    "unsplit": {"rounds": 2, "steps": 50, "rate": 0.01},
    "unrolled": QUICK | {"rule_steps": 5, "rule_width": 8},
    "reference_decoder": {"width": 8, "blocks": 1, "epochs": 5},
}
"""Options that make the trained attacks quick."""
LEARNING = [name for name, attack in ATTACKS.items() if attack.kind != "floor"]
PAIRED = [name for name in ATTACKS if "pairs" in ATTACKS[name].needs or name == "class_mean"]
"""Attacks that know what their own images are released as."""
