"""Samples of a flow against a posterior that is known."""

import pytest
import torch

from smashbench.attacks import Knowledge
from smashbench.attacks.flow import Flow, _Velocity

SPREAD, NOISE = 0.1, 0.1
OPTIONS = {"width": 32, "blocks": 1, "cycle": 200, "max_steps": 200, "samples": 1, "euler": 20}


@pytest.fixture(scope="module")
def fitted():
    """Images of independent Gaussian pixels, released with noise of the same variance: the
    posterior of a pixel has the mean (0.5 + z) / 2 and half of the variance."""
    torch.manual_seed(0)
    x = (0.5 + SPREAD * torch.randn(2000, 1, 8, 8)).clamp(0, 1)
    known = Knowledge(x, 2, {"draw": lambda index: x[index] + NOISE * torch.randn_like(x[index])})
    return Flow(**OPTIONS).fit(known)


@pytest.mark.slow
def test_samples_have_the_mean_and_the_spread_of_the_posterior(fitted):
    torch.manual_seed(1)
    truth = 0.5 + SPREAD * torch.randn(8, 1, 8, 8)
    z = truth + NOISE * torch.randn_like(truth)
    drawn = torch.stack([fitted.reconstruct(z) for _ in range(200)])
    error = (drawn.mean(0) - (0.5 + z) / 2).square().mean().sqrt()
    assert error < 0.3 * SPREAD / 2**0.5
    assert drawn.std(0).mean() == pytest.approx(SPREAD / 2**0.5, rel=0.15)


def test_a_sample_errs_twice_as_much_as_the_mean_of_many(fitted):
    torch.manual_seed(2)
    truth = 0.5 + SPREAD * torch.randn(100, 1, 8, 8)
    z = truth + NOISE * torch.randn_like(truth)
    single = (fitted.reconstruct(z) - truth).square().mean()
    fitted.samples = 32
    many = (fitted.reconstruct(z) - truth).square().mean()
    fitted.samples = 1
    assert single / many == pytest.approx(2, rel=0.2)


def test_cycles_double_until_the_loss_gains_little_or_the_budget_is_spent(fitted):
    assert len(fitted.history_) == 2  # of the start and of one cycle
    assert not fitted.converged_  # one cycle says nothing
    x = torch.rand(60, 1, 8, 8)
    known = Knowledge(x, 2, {"draw": lambda index: x[index]})
    small = {"width": 8, "blocks": 1, "cycle": 3, "samples": 1, "euler": 2}
    two = Flow(**small, max_steps=20, min_gain=0.0).fit(known)  # cycles of 3 and 6 steps
    assert len(two.history_) == 3
    enough = Flow(**small, max_steps=1000, min_gain=0.9).fit(known)
    assert len(enough.history_) == 3
    assert enough.converged_


@pytest.mark.parametrize("places", [(16, 16), (8, 8), (4, 4), (2, 2)])
def test_every_feature_reaches_the_velocity(places):
    """Finer than the network's own places, as fine, and coarser."""
    z = torch.rand(2, 3, *places, requires_grad=True)
    x = torch.rand(2, 1, 16, 16)
    velocity = _Velocity((z.detach(), x), 8, 1)
    torch.nn.init.normal_(velocity.out.weight)
    velocity(x, torch.rand(2, 1, 1, 1), x, z).square().sum().backward()
    assert z.grad.abs().min() > 0


def test_images_of_odd_sizes_and_features_of_another_grid_are_no_special_case():
    x = torch.rand(60, 3, 9, 9)
    known = Knowledge(x, 2, {"draw": lambda index: x[index].flatten(1)[:, :20]})
    flow = Flow(width=8, blocks=1, cycle=2, max_steps=2, samples=2, euler=2).fit(known)
    guess = flow.reconstruct(x[:5].flatten(1)[:, :20])
    assert guess.shape == (5, 3, 9, 9)
    assert 0 <= guess.min() <= guess.max() <= 1


def test_a_fit_that_diverges_keeps_the_cycle_before_and_has_not_converged():
    x = torch.rand(60, 1, 8, 8)
    known = Knowledge(x, 2, {"draw": lambda index: x[index]})
    options = {"width": 8, "blocks": 1, "cycle": 3, "max_steps": 50, "samples": 1, "euler": 2}
    flow = Flow(**options, lr=1e30, adam_lr=1e30).fit(known)
    assert len(flow.history_) == 1  # of the start
    assert not flow.converged_
    r, t = torch.zeros(2, 1, 8, 8), torch.zeros(2, 1, 1, 1)
    assert not flow.velocity_(r, t, x[:2], x[:2]).any()  # as before the first cycle
    assert flow.reconstruct(x[:5]).isfinite().all()


def test_paths_lead_from_noise_to_the_image(fitted):
    seen, z, x, e = [], torch.rand(5, 1, 8, 8), torch.rand(5, 1, 8, 8), torch.randn(5, 1, 8, 8)
    r = (x - fitted.start_(z)) / fitted.rho_

    def velocity(way, t, start, z):
        seen.append(way)
        return torch.zeros_like(way)

    for t, end in ((0.0, e), (1.0, r)):  # the way that samples go
        loss = fitted._loss(velocity, (z, x), e, torch.full((5, 1, 1, 1), t))
        torch.testing.assert_close(seen[-1], end)
        assert float(loss) == pytest.approx(float((r - e).square().mean()))
