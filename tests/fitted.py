"""CEM defenses past their warm-up, with fitted statistics, for the tests."""

from functools import partial

import torch
from torch import Tensor, nn

from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.victim import Victim
from smashbench.defenses import DEFENSES
from smashbench.defenses.base import Step
from smashbench.defenses.cem import Cem

SHAPE = (2, 3, 2)


VARIANTS = [
    ("kmeans_cem", {}),
    ("kmeans_cem", {"variance": "mean", "gate": "capacity", "noise": 0.2}),
    ("kmeans_cem", {"variance": "per_dim", "gate": "linear", "clusters": 3}),
    ("kmeans_cem", {"variance": "per_dim", "class_weight": "uniform"}),
    (
        "kmeans_cem",
        {"variance": "mean", "pooling": "cluster", "blend": 10.0, "class_weight": "uniform"},
    ),
    ("kmeans_cem", {"variance": "per_dim", "blend": 0.5}),
    ("gmm_cem", {}),
    ("gmm_cem", {"variance": "mean", "gate": "linear", "components": 3}),
    ("gmm_cem", {"variance": "trace", "gate": "capacity", "class_weight": "uniform"}),
    ("full_gmm_cem", {"rank": 4, "components": 2}),
    ("gated_pooling", {}),
    ("gated_pooling", {"features": "raw", "variance": "mean", "noise": 0.05}),
    ("gated_pooling", {"features": "raw", "variance": "trace", "attention": "uniform"}),
    ("gated_pooling", {"attention": "adversarial", "tau": 0.01}),
    ("gated_pooling", {"attention": "detached", "gate": "capacity", "noise": 0.3}),
    ("slot_attention", {"shutoff_steps": 0}),
    ("slot_attention", {"shutoff_steps": 0, "measure": "features", "slots": 3, "rounds": 2}),
    (
        "slot_attention",
        {"shutoff_steps": 0, "attention": "adversarial", "contexts": "normalized"},
    ),
    ("slot_attention", {"shutoff_steps": 0, "attention": "detached", "dimensions": "open"}),
    (
        "slot_attention",
        {"shutoff_steps": 0, "slot_power": 3.0, "mass_power": 0.5, "margin_sharpness": 4.0},
    ),
]


CEM = sorted({name for name, _ in VARIANTS})


def make(name: str, options: dict, classes: int = 4, n: int = 48, shape=SHAPE) -> Cem:
    """A float64 defense past its warm-up, with statistics fitted on random features."""
    torch.manual_seed(1)
    defense = DEFENSES[name](shape, classes, **options)
    assert isinstance(defense, Cem)
    defense.epoch = defense.warmup_epochs
    defense.refresh(torch.rand(n, *shape), torch.arange(n) % classes)
    return defense.double().eval()


def batch(n: int, classes: int, shape=SHAPE) -> tuple[Tensor, Tensor]:
    z = torch.rand(n, *shape, dtype=torch.float64, requires_grad=True)
    return z, torch.randint(classes, (n,))


def step_of(z: Tensor, y: Tensor) -> Step:
    """A training step with these clean features and labels; the release is the features."""
    return Step(z.new_zeros(len(z), 3, 4, 4).requires_grad_(), y, z, lambda z: z)


def victim_of(
    model: str, defense: str, options: dict, image_shape: tuple[int, int, int], classes: int
) -> Victim:
    """A victim by the names of its model and its defense."""
    made = partial(DEFENSES[defense], **options)
    return Victim(MODELS[model](), made, image_shape, classes)


def gradients(loss: Tensor, z: Tensor, defense: nn.Module) -> list[Tensor]:
    inputs = [z, *defense.parameters()]
    found = torch.autograd.grad(loss, inputs, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, found, strict=True)]
