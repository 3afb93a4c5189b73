"""Muon: what it does to matrices, and that the rest is Adam."""

from copy import deepcopy

import torch
from torch import nn

from smashbench.attacks.muon import Muon, groups_of, orthogonalised


def test_five_steps_come_near_the_polar_factor():
    matrices = torch.randn(3, 8, 20, dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonalised(matrices)
    values = torch.linalg.svdvals(found)
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.25
    cosine = (found * (u @ v)).sum((1, 2)) / found.norm(dim=(1, 2)) / (u @ v).norm(dim=(1, 2))
    assert float(cosine.min()) > 0.97


def test_tall_matrices_are_the_transposes_of_wide_ones():
    wide = torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(orthogonalised(wide.mT), orthogonalised(wide).mT)


def test_a_step_is_that_of_the_published_loop():
    """One matrix at a time, as in Jordan's code: momentum, Nesterov, Newton-Schulz, the factor of
    tall matrices, and the renormalised filters."""
    torch.manual_seed(0)
    filters = [nn.Parameter(torch.randn(6, 4, 3, 3, dtype=torch.float64)) for _ in range(3)]
    tall = nn.Parameter(torch.randn(40, 1, 3, 3, dtype=torch.float64))
    params = [*filters, tall]
    expected = [p.detach().clone() for p in params]
    buffers = [torch.zeros_like(p) for p in params]
    optimiser = Muon(
        [{"params": params, "matrices": True, "normalised": True}], lr=0.1, momentum=0.7, steps=3
    )
    for _ in range(3):
        for p in params:
            p.grad = torch.randn_like(p)
        for value, buffer, p in zip(expected, buffers, params, strict=True):
            buffer.mul_(0.7).add_(p.grad)
            update = (p.grad + 0.7 * buffer).flatten(1)
            x = update / update.norm()
            x = x.T if len(x) > x.shape[1] else x
            for _ in range(3):
                a = x @ x.T
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            x = x.T if len(update) > update.shape[1] else x
            value.mul_(len(value) ** 0.5 / value.norm())
            value.sub_(0.1 * max(1, len(update) / update.shape[1]) ** 0.5 * x.view_as(value))
        optimiser.step()
    for value, p in zip(expected, params, strict=True):
        torch.testing.assert_close(p.detach(), value, rtol=1e-6, atol=1e-6)


def test_what_is_no_filter_is_left_to_adam():
    ours, theirs = (nn.Parameter(torch.ones(5)) for _ in range(2))
    optimiser = Muon([{"params": [ours], "lr": 0.01}])
    adam = torch.optim.Adam([theirs], 0.01, betas=(0.9, 0.99))
    for _ in range(4):
        ours.grad = theirs.grad = torch.randn(5)
        optimiser.step()
        adam.step()
    torch.testing.assert_close(ours, theirs)


def test_weight_decay_is_decoupled_and_spares_normalised_filters():
    plain, normalised, other = (nn.Parameter(torch.ones(2, 2)) for _ in range(3))
    groups = [
        {"params": [plain], "matrices": True},
        {"params": [normalised], "matrices": True, "normalised": True},
        {"params": [other]},
    ]
    optimiser = Muon(groups, lr=0.1, weight_decay=0.5)
    for p in (plain, normalised, other):
        p.grad = torch.zeros_like(p)
    optimiser.step()
    torch.testing.assert_close(plain.detach(), torch.full((2, 2), 0.95))
    torch.testing.assert_close(other.detach(), torch.full((2, 2), 0.95))
    torch.testing.assert_close(normalised.detach(), torch.full((2, 2), 2**0.5 / 2))


def test_a_network_is_dealt_to_the_groups_whole():
    frozen = nn.Conv2d(3, 4, 1)
    frozen.weight.requires_grad_(False)
    net = nn.Sequential(frozen, nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Linear(4, 2))
    normalised, matrices, others = groups_of([net], lr=0.1, adam_lr=0.01)
    assert [p.shape for p in normalised["params"]] == [(4, 4, 3, 3)]
    assert matrices["params"] == []
    assert len(others["params"]) == 1 + 2 + 2  # a bias, the normalisation, the classifier
    assert [group["lr"] for group in (normalised, matrices, others)] == [0.1, 0.1, 0.01]


def test_a_restored_optimiser_goes_on_as_it_was():
    def made() -> tuple[nn.Module, Muon]:
        torch.manual_seed(1)
        net = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 2, 3))
        return net, Muon(groups_of([net], lr=0.1, adam_lr=0.01))

    def stepped(net: nn.Module, optimiser: Muon, seed: int) -> None:
        torch.manual_seed(seed)
        optimiser.zero_grad()
        net(torch.randn(2, 3, 8, 8)).square().mean().backward()
        optimiser.step()

    first, optimiser = made()
    stepped(first, optimiser, 2)
    second, restored = made()
    second.load_state_dict(first.state_dict())
    restored.load_state_dict(deepcopy(optimiser.state_dict()))
    stepped(first, optimiser, 3)
    stepped(second, restored, 3)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
