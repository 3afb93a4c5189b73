"""What is measured without an attack: floors, the optimum, and which images are kept to be seen."""

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from smashbench.bench.experiment.bounds import optimum, sample
from smashbench.bench.experiment.metrics import scored
from smashbench.bench.experiment.metrics.checks import check
from smashbench.bench.experiment.results import Floors, Values
from smashbench.bench.experiment.seeds import seed_for
from smashbench.bench.experiment.victim import Victim
from smashbench.datasets import Split

ACCURACY_DRAWS = 5
"""Releases per test image that the accuracy is averaged over, when they are random."""
SAMPLES = 8
"""Test images whose reconstructions are kept, spread evenly over their order of difficulty."""


def scores_of(x: Tensor, guess: Tensor) -> dict[str, Tensor]:
    """Every scored metric (N,) of reconstructions ``guess`` of images x (N, C, H, W) in [0, 1].

    Raises:
        ValueError: shapes differ, or pixels lie outside [0, 1].
    """
    check(x, guess)
    return {name: metric.score(x, guess) for name, metric in scored().items() if metric.score}


def _means(x: Tensor, guess: Tensor) -> Values:
    return {name: float(values.mean()) for name, values in scores_of(x, guess).items()}


def correct_share(victim: Victim, z: Tensor, y: Tensor, seed: int) -> Tensor:
    """Share of the releases (N,) of each image's features z that the head classifies rightly."""
    torch.manual_seed(seed_for("accuracy", seed))
    draws = ACCURACY_DRAWS if victim.defense.randomized else 1
    hits = [victim.predict(victim.protect(z)) == y for _ in range(draws)]
    return torch.stack(hits).float().mean(0)


def floors_of(split: Split) -> Floors:
    """Metrics of what needs no attack: the train mean, the true class's train mean, and
    thumbnails of the test images themselves."""
    x, train_x, train_y = split.test.x, split.train.x, split.train.y
    mean = train_x.mean(0)
    label = torch.arange(split.classes, device=x.device)
    member = (label[:, None] == train_y).float()
    count = member.sum(1, keepdim=True)
    by_class = ((member @ train_x.flatten(1)) / count.clamp_min(1)).where(count > 0, mean.flatten())
    guesses = {
        "mean_image": mean.expand_as(x),
        "class_mean": by_class[split.test.y].view_as(x),
    }
    for size in (2, 4):
        small = adaptive_avg_pool2d(x, size)
        guesses[f"thumbnail_{size}x{size}"] = interpolate(small, x.shape[2:], mode="nearest")
    return {name: _means(x, guess) for name, guess in guesses.items()}


def optimum_of(victim: Victim, split: Split, z: Tensor, seed: int) -> Values | None:
    """Metrics of the best possible reconstruction from the releases that every attack gets; None
    where it is not known."""
    torch.manual_seed(seed_for("release", seed))
    guess = optimum(victim, split, victim.protect(z))
    return None if guess is None else _means(split.test.x, guess.clamp(0, 1))


def chosen_images(split: Split) -> Tensor:
    """Indices (SAMPLES,) of test images at evenly spaced quantiles of difficulty: the error that
    their 4x4 thumbnail leaves. So they depend on the data alone and nobody picks them."""
    x = split.test.x
    coarse = interpolate(adaptive_avg_pool2d(x, 4), x.shape[2:], mode="nearest")
    order = (x - coarse).square().flatten(1).mean(1).argsort(stable=True)
    return order[sample(len(order), SAMPLES).to(order.device)]


def pixels(images: Tensor) -> Tensor:
    """Images in [0, 1] as uint8."""
    return (images * 255).round().to(torch.uint8).cpu().contiguous()
