"""Lower bounds and optima against values worked by hand and by numerical integration."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smashbench.bench.experiment.bounds import (
    _affine,
    lower_bound,
    optimum,
    pixel_noise,
    posterior_mean,
    van_trees,
)
from smashbench.bench.experiment.integrals import integrated_mean
from smashbench.datasets import Prior
from smashbench.datasets.gaussian import Gaussian
from tests.fitted import victim_of


def test_one_pixel_by_hand():
    """x ~ N(., 4), seen as 3 x + N(0, 2^2): 1 / (9 / 4 + 1 / 4) = 0.4."""
    bound = van_trees(torch.tensor([[3.0]]), 2.0, torch.tensor([[4.0]]))
    assert bound == pytest.approx(0.4)


def test_the_formula_equals_the_inverse_of_the_information():
    jacobian, root = torch.randn(5, 12), torch.randn(12, 12)
    covariance = (root @ root.T + 0.1 * torch.eye(12)).double()
    information = jacobian.T.double() @ jacobian.double() / 0.3**2 + covariance.inverse()
    expected = float(information.inverse().trace() / 12)
    assert van_trees(jacobian, 0.3, covariance) == pytest.approx(expected, rel=1e-6)


def test_a_covariance_of_channels_is_that_of_every_place():
    jacobian, small = torch.randn(4, 3 * 5), torch.tensor([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 0]])
    whole = torch.kron(small, torch.eye(5))
    assert van_trees(jacobian, 0.5, small) == pytest.approx(van_trees(jacobian, 0.5, whole))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 10))
def test_more_noise_and_fewer_features_leave_more_error(seed, noise):
    torch.manual_seed(seed)
    jacobian, root = torch.randn(4, 8), torch.randn(8, 8)
    covariance = root @ root.T
    bound = van_trees(jacobian, noise, covariance)
    prior = float(covariance.trace()) / 8
    assert -1e-9 <= bound <= van_trees(jacobian, 2 * noise, covariance) + 1e-9
    assert bound <= van_trees(jacobian[:2], noise, covariance) + 1e-9
    assert bound <= prior + 1e-9
    assert van_trees(jacobian, 1e6, covariance) == pytest.approx(prior, rel=1e-4)


def test_pixel_noise_is_measured_through_smooth_content():
    ramp = torch.linspace(0.2, 0.8, 64).expand(3, 64, 64)
    levels = torch.tensor([0.01, 0.02, 0.03])
    noisy = ramp + levels[:, None, None] * torch.randn(3, 64, 64)
    torch.testing.assert_close(
        pixel_noise(noisy[None])[0].diagonal().sqrt().float(), levels, rtol=0.1, atol=0
    )


def test_grey_photographs_have_noise_in_one_direction_only():
    grey = (0.5 + 0.02 * torch.randn(1, 64, 64)).expand(3, 64, 64)
    values = torch.linalg.eigvalsh(pixel_noise(grey[None])[0])
    assert values[1] < 1e-12
    assert float(values[2]) == pytest.approx(3 * 0.02**2, rel=0.2)


def test_the_posterior_mean_equals_numerical_integration():
    prior = Prior(
        torch.tensor([0.3, 0.7], dtype=torch.float64),
        torch.tensor([[0.2], [0.7]], dtype=torch.float64),
        torch.tensor([[[0.01]], [[0.04]]], dtype=torch.float64),
    )
    grid = np.linspace(-2, 3, 200_001)

    def normal(x, mean, variance):
        return np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(variance)

    density = 0.3 * normal(grid, 0.2, 0.01) + 0.7 * normal(grid, 0.7, 0.04)
    for z in (0.0, 1.0, 2.2):
        weight = density * normal(z, 2 * grid + 0.1, 0.3**2)
        expected = (weight * grid).sum() / weight.sum()
        found = posterior_mean(
            prior,
            torch.tensor([[2.0]], dtype=torch.float64),
            torch.tensor([0.1], dtype=torch.float64),
            0.3,
            torch.tensor([[z]], dtype=torch.float64),
        )
        assert float(found) == pytest.approx(expected, abs=1e-6)


def test_integration_equals_the_closed_form_where_both_are():
    split = Gaussian(components=2, dimensions=2, aux=10, test=40).load()
    victim = victim_of("linear", "noise", {"noise": 0.3}, split.shape, 2)
    z = victim.release(split.test.x)
    expected = optimum(victim, split, z)

    def release(x):
        return victim.encode(x.view(-1, *split.shape)).flatten(1)

    found = integrated_mean(split.prior, release, 0.3, z.flatten(1))
    assert found is not None
    torch.testing.assert_close(found.view(expected.shape).float(), expected, atol=3e-4, rtol=0)
    assert integrated_mean(split.prior, release, 0.001, z.flatten(1)) is None  # too coarse a grid
    wide = Gaussian(aux=10, test=10).load().prior
    assert integrated_mean(wide, release, 0.3, z.flatten(1)) is None  # too many dimensions


def test_integration_through_a_bend_by_hand():
    """One pixel N(.5, .1^2), seen as tanh(9 (x - .5)) + N(0, .4^2)."""
    prior = Prior(
        torch.ones(1, dtype=torch.float64),
        torch.tensor([[0.5]], dtype=torch.float64),
        torch.tensor([[[0.01]]], dtype=torch.float64),
    )
    x = np.linspace(-1, 2, 300_001)
    density = np.exp(-((x - 0.5) ** 2) / 0.02)
    for z in (-1.3, 0.2, 0.9):
        weight = density * np.exp(-((z - np.tanh(9 * (x - 0.5))) ** 2) / 0.32)
        expected = (weight * x).sum() / weight.sum()
        pair = torch.tensor([[z], [z - 0.5]])
        found = integrated_mean(prior, lambda x: torch.tanh(9 * (x - 0.5)), 0.4, pair)
        assert found is not None
        assert float(found[0]) == pytest.approx(expected, abs=1e-5)


def test_a_bent_encoder_has_an_optimum_where_images_have_two_dimensions():
    split = Gaussian(components=1, dimensions=2, aux=10, test=20).load()
    victim = victim_of("bent", "noise", {"noise": 0.5}, split.shape, 2)
    z = victim.release(split.test.x)
    least = optimum(victim, split, z)
    assert least is not None
    errors = [(guess - split.test.x).square().mean() for guess in (least, split.train.x.mean(0))]
    assert errors[0] < 0.3 * errors[1]
    assert lower_bound(victim, split) is None


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_the_bound_is_the_optimum_for_one_gaussian_and_below_it_for_three(noise):
    for components, low, high in ((1, 0.97, 1.03), (3, 0.7, 1.02)):
        split = Gaussian(components=components, aux=10, test=2000).load()
        victim = victim_of("linear", "noise", {"noise": noise}, split.shape, 2)
        z = victim.release(split.test.x)
        least = optimum(victim, split, z)
        bound = lower_bound(victim, split)
        assert least is not None
        assert bound is not None
        error = float((least - split.test.x).square().mean())
        assert low < bound.mse / error < high
        assert bound.mse < bound.prior


def test_a_mean_of_bounds_over_a_bent_encoder_is_no_bound():
    """x ~ N(0, 1), seen as tanh(4 x) + N(0, 0.05^2): the mean of the bounds at single images is
    above the least possible error, so a bent encoder has no bound where the prior is known."""
    x = np.linspace(-6, 6, 2001)
    density = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    slopes = 4 / np.cosh(4 * x) ** 2
    each = [van_trees(torch.tensor([[s]]), 0.05, torch.eye(1)) for s in slopes]
    z = np.linspace(-1.4, 1.4, 2001)
    likely = np.exp(-((z[:, None] - np.tanh(4 * x)) ** 2) / (2 * 0.05**2)) * density
    guess = (likely @ x) / likely.sum(1)
    left = (likely * (x - guess[:, None]) ** 2).sum() / likely.sum()
    assert density @ each > 1.05 * left
    split = Gaussian(aux=10, test=100).load()
    bent = victim_of("linear", "noise", {"noise": 0.05}, split.shape, 2)
    assert lower_bound(bent, split) is not None
    bent.encoder.append(torch.nn.Tanh())
    assert lower_bound(bent, split) is None


def test_no_certificate_without_gaussian_noise_and_no_optimum_without_a_known_world(photos):
    for defense, model in (("none", "small"), ("noise", "small")):
        victim = victim_of(model, defense, {}, photos.shape, 10)
        assert (lower_bound(victim, photos) is None) == (defense == "none")
        assert optimum(victim, photos, victim.release(photos.test.x[:2])) is None
    split = Gaussian(aux=10, test=100).load()
    rounded = victim_of("linear", "noise", {}, split.shape, 2)
    rounded.defense.transform = lambda z: (40 * z).round() / 40  # type: ignore[method-assign]
    rounded.defense.transform_is = "rough"
    assert optimum(rounded, split, rounded.release(split.test.x)) is None
    assert lower_bound(rounded, split) is None
    bent = victim_of("linear", "noise", {}, split.shape, 2)
    bent.encoder.append(torch.nn.Sigmoid())  # no longer linear
    assert optimum(bent, split, bent.release(split.test.x)) is None


def test_a_transform_before_the_noise_counts_in_bound_and_optimum():
    """Features that are halved and then get noise s are features that get noise 2 s."""
    split = Gaussian(components=1, aux=10, test=100).load()
    halved = victim_of("linear", "noise", {"noise": 0.05}, split.shape, 2)
    halved.defense.transform = lambda z: z / 2  # type: ignore[method-assign]
    plain = victim_of("linear", "noise", {"noise": 0.1}, split.shape, 2)
    ours, theirs = lower_bound(halved, split), lower_bound(plain, split)
    assert ours is not None
    assert theirs is not None
    assert ours.mse == pytest.approx(theirs.mse, rel=1e-6)
    released = plain.release(split.test.x)
    torch.testing.assert_close(
        optimum(halved, split, released / 2), optimum(plain, split, released)
    )


def test_a_victim_that_diverged_has_no_bound(photos):
    victim = victim_of("small", "noise", {}, photos.shape, 10)
    for parameter in victim.encoder.parameters():
        parameter.data.fill_(torch.nan)
    assert lower_bound(victim, photos) is None


def test_the_bound_on_photographs_is_the_part_of_their_noise_that_is_not_seen(photos):
    victim = victim_of("small", "noise", {"noise": 0.1}, photos.shape, 10)
    bound = lower_bound(victim, photos)
    assert bound is not None
    assert 0 < bound.mse < bound.prior < 0.01
    assert bound.mse > bound.prior * (1 - 512 / 3072)  # at most 512 of 3072 directions are seen


def test_the_bound_of_a_mixture_is_the_mean_over_its_components():
    split = Gaussian(components=3, aux=10, test=100).load()
    weights = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    covariances = split.prior.covariances * torch.tensor([1.0, 2.0, 4.0])[:, None, None]
    split = replace(split, prior=split.prior._replace(weights=weights, covariances=covariances))
    model = victim_of("linear", "noise", {"noise": 0.05}, split.shape, 2)
    jacobian, _ = _affine(model, split.test.x)
    found = lower_bound(model, split)
    each = [van_trees(jacobian, 0.05, c) for c in covariances]
    assert found.mse == pytest.approx(float(weights @ torch.tensor(each, dtype=torch.float64)))
    variances = torch.stack([c.diagonal().mean() for c in covariances])
    assert found.prior == pytest.approx(float(weights @ variances))


def test_the_bound_on_one_photograph_by_hand(photos):
    """Of an affine client J is known: noise of the image's own level before it, and that of the
    defense after it."""
    x = photos.test.x[:1, :, :8, :8]
    one = replace(photos, test=photos.test._replace(x=x, y=photos.test.y[:1]))
    victim = victim_of("linear", "noise", {"noise": 0.05}, (3, 8, 8), photos.classes)
    (channels,) = pixel_noise(x)
    level = torch.kron(channels, torch.eye(64, dtype=channels.dtype))
    jacobian, _ = _affine(victim, x)
    seen = jacobian @ level @ jacobian.T + 0.05**2 * torch.eye(len(jacobian), dtype=level.dtype)
    gain = level @ jacobian.T @ seen.inverse()
    left = (level - gain @ jacobian @ level).trace() / len(level)
    assert lower_bound(victim, one).mse == pytest.approx(float(left), rel=1e-6)
