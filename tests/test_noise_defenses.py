"""Defenses that add noise of another law, shape or promise; and two that add nothing at all."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import kstest, laplace, norm

from smashbench.attacks.ridge import Ridge
from smashbench.defenses import DEFENSES
from smashbench.defenses.laplace import Laplace
from smashbench.defenses.local_dp import LocalDp, gaussian_sigma
from smashbench.defenses.matched_noise import MatchedNoise, water_filled
from smashbench.defenses.random_projection import RandomProjection
from smashbench.defenses.shredder import Shredder
from tests.fitted import step_of
from tests.worlds import images, world

SHAPE = (4, 3, 2)


def test_laplace_noise_has_its_law_and_its_standard_deviation():
    defense = Laplace(SHAPE, 3, noise=0.3).eval()
    z = torch.rand(500, *SHAPE)
    added = (defense(z) - z).flatten().numpy()
    assert added.std() == pytest.approx(0.3, rel=0.03)
    assert kstest(added, laplace(scale=0.3 / math.sqrt(2)).cdf).pvalue > 0.01
    assert kstest(added, norm(scale=0.3).cdf).pvalue < 1e-6
    assert not defense.gaussian  # so that no bound of Gaussian noise is claimed


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 100.0, 2000.0])
def test_the_gaussian_mechanism_spends_delta_and_not_more(epsilon):
    """P(L > e) - exp(e) P(L' > e) of the privacy loss of two neighbours, by scipy."""
    sensitivity, delta = 2.0, 1e-5

    def spent(sigma: float) -> float:
        near, far = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        return norm.cdf(near - far) - math.exp(epsilon + norm.logcdf(-near - far))

    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    assert spent(sigma) == pytest.approx(delta, rel=1e-4)
    assert spent(0.99 * sigma) > delta
    if epsilon <= 1:  # the classical calibration holds here, and is larger
        assert sigma < sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def test_local_dp_clips_every_image_and_the_noise_covers_any_two():
    z = torch.rand(201, *SHAPE) * torch.linspace(0.1, 2, 201).view(-1, 1, 1, 1)
    z[7] *= 100
    for mechanism, order, usual in (("gaussian", 2, 0.5 * 24**0.5), ("laplace", 1, 12.0)):
        defense = LocalDp(SHAPE, 3, epsilon=2.0, mechanism=mechanism).eval()
        defense.refresh(z, torch.zeros(201, dtype=torch.int64))
        norms = np.linalg.norm(z.flatten(1).numpy(), ord=order, axis=1)
        limit = np.median(norms)
        assert float(defense.limit) == pytest.approx(limit, rel=1e-5)
        clipped = z.flatten(1).numpy() * np.minimum(1, limit / norms)[:, None]
        expected = clipped * usual / limit
        sent = defense.transform(z).flatten(1).numpy()
        np.testing.assert_allclose(sent, expected, rtol=1e-4)
        reach = np.linalg.norm(sent[:, None] - sent[None], ord=order, axis=2).max()
        assert reach <= 2 * usual * (1 + 1e-5)  # the sensitivity
        added = (defense(z) - defense.transform(z)).flatten()
        if mechanism == "gaussian":
            assert defense.noise == pytest.approx(usual * gaussian_sigma(2.0, 1e-5, 2.0))
        else:  # scale 2 R / epsilon, whose standard deviation is that times the root of 2
            assert defense.noise == pytest.approx(math.sqrt(2) * 2 * usual / 2.0)
            assert float(added.abs().mean()) == pytest.approx(2 * usual / 2.0, rel=0.05)
        assert float(added.std()) == pytest.approx(defense.noise, rel=0.05)
        assert defense.gaussian == (mechanism == "gaussian")


def test_water_filled_noise_is_the_least_leak_at_its_price():
    """Against scipy, and never worse than as much equal noise where classes do not differ."""
    w = torch.tensor([2.0, 0.5, 0.1, 0.01], dtype=torch.float64)
    s = water_filled(w, torch.zeros_like(w), 0.2)
    assert float(s.mean()) == pytest.approx(0.2)

    def leak(s: np.ndarray) -> float:
        return float(np.log1p(w.numpy() / s).sum() / 2)

    found = minimize(
        lambda s: leak(s), np.full(4, 0.2), bounds=[(1e-6, None)] * 4,
        constraints={"type": "eq", "fun": lambda s: s.mean() - 0.2}, tol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(s.numpy(), found.x, rtol=1e-3)
    assert leak(s.numpy()) < leak(np.full(4, 0.2))
    assert (s.diff() < 0).all()  # more where the variance within is larger
    b = torch.tensor([4.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    shared = water_filled(w, b, 0.2)
    assert shared[0] < s[0]  # and less where the classes differ
    slope = w / (shared * (shared + w)) / (1 + b / w)  # mu of the stationary point, for all
    torch.testing.assert_close(slope, slope[:1].expand(4), rtol=1e-6, atol=0)


def test_matched_noise_is_shaped_in_the_directions_within_classes():
    y = torch.arange(600) % 3
    mix = torch.randn(24, 24) * torch.logspace(0, -1.5, 24)
    z = (torch.randn(600, 24) @ mix + 2 * torch.randn(3, 24)[y]).view(600, *SHAPE)
    defense = MatchedNoise(SHAPE, 3, noise=0.3).eval()
    before = defense(torch.zeros(2000, *SHAPE)).flatten(1)
    torch.testing.assert_close(before.T @ before / 2000, 0.09 * torch.eye(24), atol=0.012, rtol=0)
    defense.refresh(z, y)
    flat = z.flatten(1).double().numpy()
    means = np.stack([flat[y.numpy() == c].mean(0) for c in range(3)])
    within = sum(
        np.outer(row - means[c], row - means[c]) for row, c in zip(flat, y.tolist(), strict=True)
    ) / len(flat)
    w, u = np.linalg.eigh(within)
    between = np.cov(means.T, bias=True)  # classes of equal size
    b = np.diag(u.T @ between @ u).copy()
    s = water_filled(torch.from_numpy(w), torch.from_numpy(b), 0.09).numpy()
    covariance = defense.root.double().numpy() @ defense.root.double().numpy()
    np.testing.assert_allclose(covariance, (u * s) @ u.T, atol=1e-5)
    assert np.trace(covariance) == pytest.approx(24 * 0.09, rel=1e-4)
    assert not defense.gaussian  # it is not independent: bounds that take it for that are off


def test_a_learned_tensor_and_a_fixed_key_are_undone_by_the_linear_attack():
    """What makes them warnings: the same error as without, up to rounding."""
    x = images(300)
    shape = (3, 4, 4)

    def encode(x):
        return torch.nn.functional.avg_pool2d(x, 2)

    def ridge(defense) -> float:
        def release(x):
            return encode(x) if defense is None else defense(encode(x)).detach()

        attack = Ridge().fit(world(x[:250], release))
        return float((attack.reconstruct(release(x[250:])) - x[250:]).square().mean())

    plain = ridge(None)
    shredder = Shredder(shape, 3, start=2.0)
    assert float(shredder.tensor.detach().std()) > 1
    for defense in (
        shredder,
        RandomProjection(shape, 3),
        RandomProjection(shape, 3, key="permutation"),
    ):
        assert ridge(defense) == pytest.approx(plain, rel=0.02)
        assert defense.group == "warning"


def test_a_key_is_orthogonal_and_stored():
    for key in ("rotation", "permutation"):
        defense = RandomProjection(SHAPE, 3, key=key)
        matrix = defense.state_dict()["matrix"]
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(24), atol=1e-5, rtol=0)
        z = torch.rand(5, *SHAPE)
        expected = (z.flatten(1) @ matrix).view_as(z)
        torch.testing.assert_close(defense(z), expected)
    assert set(matrix.unique().tolist()) == {0.0, 1.0}


def test_the_learned_tensor_grows_and_is_the_same_for_every_image():
    defense = Shredder(SHAPE, 3, weight=0.5)
    z = torch.rand(6, *SHAPE)
    added = defense(z) - z
    torch.testing.assert_close(added, added[:1].expand_as(added))
    penalty, seen = defense.penalty(step_of(z, torch.zeros(6, dtype=torch.int64)))
    variance = defense.tensor.detach().double().numpy().var()
    assert float(penalty.detach()) == pytest.approx(-0.5 * math.log(variance), rel=1e-5)
    assert float(seen["tensor_spread"]) == pytest.approx(math.sqrt(variance), rel=1e-5)
    penalty.backward()
    moved = defense.tensor - 0.1 * defense.tensor.grad
    assert moved.var() > defense.tensor.var()


@pytest.mark.parametrize("name", ["noise", "laplace", "vib", "matched_noise"])
def test_every_image_of_a_batch_has_noise_of_its_own(name):
    z = torch.full((400, 2, 3, 2), 0.5)
    defense = DEFENSES[name]((2, 3, 2), 3).eval()
    with torch.no_grad():
        added = (defense(z) - z).flatten(1)
    assert float(added.std(0).min()) > 0.5 * float(added.std())
    assert float(np.abs(np.corrcoef(added[::2].flatten(), added[1::2].flatten())[0, 1])) < 0.08


def test_training_is_on_releases():
    z = torch.full((50, *SHAPE), 0.5)
    for name in ("noise", "laplace"):
        assert float((DEFENSES[name](SHAPE, 4, noise=0.3).train()(z) - z).std()) == pytest.approx(
            0.3, rel=0.05
        )


def test_classes_count_by_their_size_in_matched_noise():
    y = torch.tensor([0] * 400 + [1] * 150 + [2] * 50)
    z = torch.randn(600, 8) * torch.logspace(0, -1, 8) + 2 * torch.randn(3, 8)[y]
    defense = MatchedNoise((8,), 3, noise=0.3)
    defense.refresh(z, y)
    flat = z.double().numpy()
    means = np.stack([flat[y.numpy() == c].mean(0) for c in range(3)])
    share = np.array([400, 150, 50]) / 600
    within = (flat - means[y]).T @ (flat - means[y]) / 600
    between = ((means - flat.mean(0)).T * share) @ (means - flat.mean(0))
    w, u = np.linalg.eigh(within)
    s = water_filled(
        torch.from_numpy(w), torch.from_numpy(np.diag(u.T @ between @ u).copy()), 0.09
    ).numpy()
    found = defense.root.double().numpy()
    np.testing.assert_allclose(found @ found, (u * s) @ u.T, atol=1e-5)


def test_the_limit_of_local_dp_follows_the_features_both_ways():
    z, y = torch.rand(101, 6), torch.zeros(101, dtype=torch.int64)
    defense = LocalDp((6,), 2)
    for scale in (4.0, 0.1):
        defense.refresh(scale * z, y)
        assert float(defense.limit) == pytest.approx(
            scale * float(z.norm(dim=1).median()), rel=1e-5
        )
