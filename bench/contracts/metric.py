"""What a metric promises."""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from smashbench.bench.contracts.base import Check, Subject, require
from smashbench.bench.experiment.metrics import METRICS, Collective, Metric
from smashbench.bench.suite.kinds import unusable

IMAGES = 6
NOISES = (0.0, 0.1, 0.5)


def _pairs() -> list[tuple[Tensor, Tensor]]:
    """Smooth images, and reconstructions that are worse and worse."""
    x = torch.nn.functional.interpolate(torch.rand(IMAGES, 3, 4, 4), (32, 32), mode="bilinear")
    noise = torch.randn_like(x)
    return [(x, (x + s * noise).clamp(0, 1)) for s in NOISES]


def _values(metric: Metric, x: Tensor, guess: Tensor) -> np.ndarray:
    """Of a metric that may be derived from another."""
    judge = METRICS.get(metric.judge, metric)
    require(judge.score is not None, f"of = {metric.of!r} is no metric that is scored")
    assert judge.score
    before = x.clone(), guess.clone()
    found = judge.score(x, guess)
    require(
        isinstance(found, Tensor),
        f"it gives {type(found).__name__}: should be a tensor (N,), one value for each image",
    )
    require(
        torch.equal(x, before[0]) and torch.equal(guess, before[1]),
        "it changes the images that it is given; use x.clamp() instead of x.clamp_()",
    )
    scores = {judge.name: found.float().numpy()}
    return metric.values(scores, {judge.name: 0.05})


def _declared(subject: Subject) -> None:
    why = unusable(subject.component)
    require(not why, f"it {why}")


def _per_image(subject: Subject) -> None:
    for x, guess in _pairs():
        values = _values(subject.component, x, guess)
        require(
            values.shape == (IMAGES,),
            f"it gives {values.shape} for {IMAGES} images: should be one value for each",
        )
        low, high = subject.component.bounds
        require(
            bool(np.isfinite(values).all())
            and low - 1e-5 <= values.min()
            and values.max() <= high + 1e-5,
            f"its values span [{values.min():.3g}, {values.max():.3g}], outside its bounds "
            f"[{low:g}, {high:g}]",
        )
        if isinstance(subject.component, Collective):
            continue
        alone = np.concatenate(
            [_values(subject.component, x[i : i + 1], guess[i : i + 1]) for i in range(IMAGES)]
        )
        require(
            np.allclose(values, alone, rtol=1e-4, atol=1e-5),
            "the value of an image depends on the other images",
        )


def _direction(subject: Subject) -> None:
    pairs = _pairs()
    if isinstance(subject.component, Collective):  # it may tell little noise from none no better
        x = pairs[0][0]
        pairs = [pairs[0], (x, x.roll(1, 0))]
    means = [_values(subject.component, *pair).mean() for pair in pairs]
    steps = [after - before for before, after in pairwise(means)]
    rising = min(steps) >= 0 < max(steps)
    falling = max(steps) <= 0 > min(steps)
    shown = ", ".join(f"{mean:.3g}" for mean in means)
    wanted = rising if subject.component.better == "higher" else falling
    require(
        wanted,
        f"it is {shown} for worse and worse reconstructions, but declares that "
        f"{subject.component.better} is more private",
    )


METRIC = (
    Check("it is scored or derived, and declared in full", _declared),
    Check("every image has a value of its own, in its bounds", _per_image),
    Check("its direction is the one that it declares", _direction),
)
