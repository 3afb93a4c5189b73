"""Attacks in a world whose best possible reconstruction is known in closed form.

Images come from a Gaussian mixture, the encoder is linear (2x2 means) and the noise is known, so
E[x | z~] is exact: no attack can have a lower expected error.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from attacks import ATTACKS, Knowledge

SHAPE, NOISE, DETAIL = (3, 8, 8), 0.02, 0.01
PIXELS = 3 * 8 * 8


class World:
    """``components`` Gaussians in image space, far inside [0, 1]."""

    def __init__(self, components: int) -> None:
        torch.manual_seed(11)
        self.means = 0.5 + 0.04 * torch.randn(components, PIXELS, dtype=torch.float64)
        self.factors = 0.012 * torch.randn(components, PIXELS, 12, dtype=torch.float64)
        eye = torch.eye(PIXELS, dtype=torch.float64)
        self.encoder = avg_pool2d(eye.view(PIXELS, *SHAPE), 2).flatten(1)  # x @ encoder = z
        self.covariances = self.factors @ self.factors.mT + DETAIL**2 * eye

    def draw(self, n: int) -> Tensor:
        k = torch.randint(len(self.means), (n,))
        code = torch.randn(n, self.factors.shape[2], 1, dtype=torch.float64)
        detail = DETAIL * torch.randn(n, PIXELS, dtype=torch.float64)
        x = self.means[k] + (self.factors[k] @ code).squeeze(2) + detail
        assert 0 < x.min() < x.max() < 1
        return x.float().view(n, *SHAPE)

    def release(self, x: Tensor) -> Tensor:
        z = avg_pool2d(x, 2)
        return z + NOISE * torch.randn_like(z)

    def optimum(self, z: Tensor) -> Tensor:
        """E[x | z~], exactly."""
        z = z.flatten(1).double()
        eye = torch.eye(z.shape[1], dtype=torch.float64)
        seen = self.encoder.T @ self.covariances @ self.encoder + NOISE**2 * eye
        normal = torch.distributions.MultivariateNormal(self.means @ self.encoder, seen)
        r = normal.log_prob(z[:, None]).softmax(1)
        gain = torch.linalg.solve(seen, self.encoder.T @ self.covariances)  # (K, D, P)
        each = self.means + torch.einsum("nkd,kdp->nkp", z[:, None] - normal.mean, gain)
        return (r[..., None] * each).sum(1).float().view(-1, *SHAPE)


def excess(world: World, name: str, n: int = 6000, **options) -> float:
    """Error of an attack over the least possible one, on the same 3,000 test releases."""
    x = world.draw(n)
    predict: Callable[[Tensor], Tensor] = lambda z: torch.zeros(len(z), dtype=torch.long)  # noqa: E731
    knowledge = Knowledge(x, lambda index: world.release(x[index]), predict, 1)
    attack = ATTACKS[name](**options).fit(knowledge)
    test = world.draw(3000)
    z = world.release(test)
    least = (world.optimum(z) - test).square().mean()
    return float((attack.reconstruct(z) - test).square().mean() / least)


def test_ridge_is_optimal_for_one_gaussian():
    assert 1 <= excess(World(1), "ridge") < 1.03


@pytest.mark.parametrize("components", [2, 4])
def test_gmm_is_close_for_its_own_number_of_components_and_ridge_is_not(components):
    world = World(components)
    assert 1 <= excess(world, "gmm", components=(components,), n=8000) < 1.05
    assert excess(world, "ridge", n=8000) > 1.5


def test_more_images_come_closer():
    world = World(2)
    few, many = (excess(world, "gmm", components=(2,), n=n) for n in (300, 6000))
    assert many < few


def test_floors_are_far_from_the_optimum():
    assert excess(World(2), "mean") > 2
