"""Local differential privacy of the features of one image."""

from math import exp, log
from typing import Annotated, Literal

import torch
from annotated_types import Gt, Lt
from torch import Tensor

from smashbench.defenses.base import Defense
from smashbench.defenses.laplace import laplace_like

Positive = Annotated[float, Gt(0)]
DELTA = 1e-5


class LocalDp(Defense):
    """Clips the features of every image to a norm and adds the noise that makes their release
    (epsilon, delta) differentially private.

    z~ = R min(1 / C, 1 / |z|) z + R n. C is the median norm of the training features (of the epoch
    before; it is taken for public, and what it tells about them is not accounted for). The factor
    R / C, R the norm of features that are all 1/2, only keeps the noise known and features in their
    usual range. Two images differ by at most 2 after the clipping, in units of R, so that n is

    - ``gaussian``: 2-norm, N(0, sigma^2) with the least sigma for sensitivity 2 that is (epsilon,
      delta) private: the analytic mechanism of Balle and Wang (ICML 2018, theorem 8), which holds
      for any epsilon. (The usual 2 sqrt(2 ln(1.25 / delta)) / epsilon holds up to epsilon = 1
      alone, and is larger.)
    - ``laplace``: 1-norm, Laplace of scale 2 / epsilon; delta is not used (Dwork et al., TCC 2006).

    Noise of scale 1 / epsilon without clipping, as in published comparisons, is no privacy at all.
    An epsilon that means something costs all utility at hundreds of features: that is the result.
    In a stack the guarantee holds for this part alone, and penalties that are relative to the noise
    see it in units of R / C.

    Args:
        epsilon: of one release of one image.
        delta: probability with which the guarantee may fail.
        mechanism: norm and noise.
    """

    strength = "epsilon"
    group = "noise"
    refit = "epoch"
    limit: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        epsilon: Positive = 100.0,
        delta: Annotated[float, Gt(0), Lt(1)] = DELTA,
        mechanism: Literal["gaussian", "laplace"] = "gaussian",
    ) -> None:
        super().__init__(shape, classes)
        self.gaussian = mechanism == "gaussian"
        if not self.gaussian and delta != DELTA:
            raise ValueError('delta does nothing with mechanism = "laplace": delete it')
        features = torch.Size(shape).numel()
        if self.gaussian:
            self.order, self.usual = 2, 0.5 * features**0.5
            self.noise = self.usual * gaussian_sigma(epsilon, delta, 2.0)
        else:
            self.order, self.usual = 1, 0.5 * features
            self.noise = self.usual * 2**0.5 * 2 / epsilon
        self.register_buffer("limit", torch.tensor(self.usual))

    def transform(self, z: Tensor) -> Tensor:
        norm = self._norm(z).view(-1, *[1] * (z.ndim - 1))
        return z * (self.usual / torch.maximum(norm, self.limit))

    def perturb(self, z: Tensor) -> Tensor:
        return super().perturb(z) if self.gaussian else z + laplace_like(z, self.noise)

    @property
    def wants_refresh(self) -> bool:
        return True

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        self.limit.copy_(self._norm(features).median().clamp_min(1e-6))

    def _norm(self, z: Tensor) -> Tensor:
        return torch.linalg.vector_norm(z.flatten(1), self.order, dim=1)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least standard deviation of Gaussian noise that is (epsilon, delta) private: the root of
    Phi(D / 2s - e s / D) - exp(e) Phi(-D / 2s - e s / D) = delta (Balle and Wang, ICML 2018).

    >>> round(gaussian_sigma(1.0, 1e-5, 1.0), 4)
    3.7306
    """

    def spent(sigma: float) -> float:
        near, far = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        a, b = (torch.special.log_ndtr(_double(x)) for x in (near - far, -near - far))
        return exp(float(a)) - exp(min(float(b) + epsilon, 0.0))

    low, high = 1e-9 * sensitivity, 1e9 * sensitivity
    for _ in range(200):  # bisection of the logarithm
        middle = exp((log(low) + log(high)) / 2)
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    return high


def _double(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)
