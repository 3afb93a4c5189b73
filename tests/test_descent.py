"""How trained attacks are trained."""

from math import inf

import pytest
import torch
from torch import nn

from smashbench.attacks.descent import WARMUP, descend, doubled
from smashbench.attacks.muon import Muon, groups_of, triangle


class Counted(nn.Module):
    """Knows how many steps it was trained for."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))


def trained(losses, **options):
    """What comes of cycles of 10 steps that end with these validation losses, and their lengths."""
    lengths, left = [], iter(losses)

    def train(net, steps):
        lengths.append(steps)
        net.steps += steps
        return net

    options = {"cycle": 10, "max_steps": 10_000, "min_gain": 0.02} | options
    return doubled(Counted(), train, lambda net: next(left), **options), lengths


def test_cycles_double_until_one_gains_little():
    done, lengths = trained([1.0, 0.5, 0.4, 0.3, 0.297])
    assert lengths == [10, 20, 40, 80]
    assert done.history == [1.0, 0.5, 0.4, 0.3, 0.297]
    assert done.net.steps == 150  # a gain of 1 % is a gain
    assert done.converged


def test_what_errs_by_nothing_has_converged():
    done, _ = trained([0.0, 0.0, 0.0, 0.0])
    assert done.converged
    assert done.history == [0.0, 0.0, 0.0]


def test_the_first_cycle_says_nothing_about_convergence():
    done, lengths = trained([1.0, 0.999, 0.5, 0.499])
    assert lengths == [10, 20, 40]
    assert done.converged


def test_a_cycle_that_overfits_ends_the_fit_and_the_one_before_counts():
    done, _ = trained([1.0, 0.5, 0.6])
    assert done.net.steps == 10
    assert done.converged


@pytest.mark.parametrize(("budget", "lengths"), [(69, [10, 20]), (70, [10, 20, 40]), (4, [4])])
def test_no_cycle_exceeds_the_budget(budget, lengths):
    done, seen = trained([1.0, 0.5, 0.25, 0.1, 0.05], max_steps=budget)
    assert seen == lengths
    assert not done.converged


def test_what_diverges_has_not_converged_and_leaves_no_trace():
    done, lengths = trained([1.0, 0.5, inf])
    assert lengths == [10, 20]
    assert done.history == [1.0, 0.5]
    assert done.net.steps == 10
    assert not done.converged


def test_training_may_go_on_with_another_network():
    other, seen = Counted(), []

    def train(net, steps):
        seen.append(net)
        return other

    left = iter([1.0, 0.5, 0.25, 0.25])
    options = {"cycle": 1, "max_steps": 100, "min_gain": 0.02}
    start = Counted()
    doubled(start, train, lambda net: next(left), **options)
    assert seen == [start, other, other]


def test_descent_is_muon_with_rates_that_rise_and_fall():
    torch.manual_seed(0)
    net, twin = nn.Conv2d(2, 3, 3), nn.Conv2d(2, 3, 3)
    twin.load_state_dict(net.state_dict())
    x = torch.rand(4, 2, 5, 5)
    rates = {"lr": 0.02, "adam_lr": 0.004}
    descend(net, (net(x).square().mean() for _ in range(7)), 7, **rates)
    optimiser = Muon(groups_of([twin], **rates))
    for step in range(7):
        for group, rate in zip(optimiser.param_groups, (0.02, 0.02, 0.004), strict=True):
            group["lr"] = rate * triangle(7, WARMUP)(step)
        optimiser.zero_grad()
        twin(x).square().mean().backward()
        optimiser.step()
    for ours, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
