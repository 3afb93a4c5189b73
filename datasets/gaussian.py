"""A world whose best possible reconstruction is known: Gaussian-mixture images."""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge, Le

from smashbench.datasets.base import Dataset, DatasetError, Images, Part, Prior, Seed, Split

SIDE, FACTORS = 16, 12
SPREAD, DETAIL, APART = 0.01, 0.005, 0.03
"""Standard deviations per factor, of the independent detail, and between the means."""
WIDE = 0.025
"""Standard deviation per factor where there are few."""


class Gaussian(Dataset):
    """Grey 16x16 images from a mixture of Gaussians around 1/2, with the mixture as ``prior``.

    Each component has a mean and 12 factors, smooth random fields, and independent detail in
    every pixel. All components share the first factor; the class of an image is whether it
    enters with a positive sign. Values lie so far inside [0, 1] that nothing is ever clamped.

    Args:
        components: of the mixture; every part has as many images of one as of another.
        dimensions: smooth factors of a component, without detail: then images have so few
            dimensions, and vary more; 0 for the 12 factors and the detail.
        train, val, aux, test: images per part.
        seed: seed of the mixture and of the images.
    """

    def __init__(
        self,
        *,
        components: Annotated[int, Ge(1), Le(1000)] = 3,
        dimensions: Annotated[int, Ge(0), Le(12)] = 0,
        train: Images = 1000,
        val: Images = 100,
        aux: Images = 20_000,
        test: Images = 5000,
        seed: Seed = 0,
    ) -> None:
        self.components, self.dimensions, self.seed = components, dimensions, seed
        self.train, self.val, self.aux, self.test = train, val, aux, test

    def load(self, root: Path | None = None) -> Split:
        rng = np.random.default_rng([self.seed, self.components])
        means = 0.5 + APART * _fields(rng, self.components)
        spread, detail = (WIDE, 0.0) if self.dimensions else (SPREAD, DETAIL)
        factors = spread * _fields(rng, self.components, self.dimensions or FACTORS)
        factors[:, 0] = factors[0, 0]
        sizes = {"train": self.train, "val": self.val, "aux": self.aux, "test": self.test}
        parts = {name: _draw(rng, means, factors, detail, n) for name, n in sizes.items()}
        covariance = factors.transpose(0, 2, 1) @ factors + detail**2 * np.eye(SIDE**2)
        prior = Prior(
            torch.full((self.components,), 1 / self.components, dtype=torch.float64),
            torch.from_numpy(means),
            torch.from_numpy(covariance),
        )
        return Split.build(parts, classes=2, prior=prior)


def _fields(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Smooth random fields (*shape, 256) of unit variance: white noise under a Gaussian window
    of 2 pixels that wraps around."""
    frequency = np.fft.fftfreq(SIDE)
    window = np.exp(-2 * (2 * np.pi) ** 2 * (frequency[:, None] ** 2 + frequency**2))
    noise = np.fft.fft2(rng.standard_normal((*shape, SIDE, SIDE)))
    fields = np.fft.ifft2(noise * window).real / np.sqrt((window**2).mean())
    return fields.reshape(*shape, -1)


def _draw(
    rng: np.random.Generator, means: np.ndarray, factors: np.ndarray, detail: float, n: int
) -> Part:
    component = rng.permutation(np.arange(n) % len(means))
    code = rng.standard_normal((n, 1, factors.shape[1]))
    x = means[component] + (code @ factors[component])[:, 0]
    x += detail * rng.standard_normal(x.shape)
    if x.min() < 0 or x.max() > 1:
        raise DatasetError("gaussian: an image left [0, 1]; use another seed")
    y = torch.from_numpy(code[:, 0, 0] > 0).long()
    return Part(torch.from_numpy(x).float().view(n, 1, SIDE, SIDE), y)
