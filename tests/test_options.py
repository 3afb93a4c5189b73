"""Every option of the CEM family changes something; the penalty's options change the penalty."""

import pytest
import torch

from smashbench.bench.suite.options import options_of
from smashbench.defenses import DEFENSES
from tests.fitted import CEM, make, step_of
from tests.test_slots import SLOTS

PENALTY = {
    "noise": 0.2,
    "lam": 2.0,
    "gate": "capacity",
    "variance": "mean",
    "var_threshold": 5.0,
    "gamma": 1.0,
    "class_weight": "uniform",
    "warmup_epochs": 20,
    "scale": 0.7,
    "clip": 1e-6,
    "lam_steps": ((0, 0.5),),
    "tau": 0.05,
}
OWN = {
    "kmeans_cem": {"clusters": 2, "pooling": "cluster", "blend": 1.0},
    "gmm_cem": {"components": 2},
    "gated_pooling": {"features": "raw", "attention": "uniform", "width": 5},
}
CASES = [
    (name, option, value) for name, own in OWN.items() for option, value in (PENALTY | own).items()
]


def effect(name: str, options: dict) -> list[torch.Tensor]:
    """The penalty at epoch 8 and its gradient, on a batch with unequal classes."""
    defense = make(name, options, n=400)
    defense.epoch = 8
    torch.manual_seed(2)
    z = torch.rand(20, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0] * 9 + [1] * 6 + [2] * 5)
    loss, _ = defense.penalty(step_of(z, y))
    if not loss.requires_grad:
        return [loss, torch.zeros_like(z)]
    return [loss.detach(), torch.autograd.grad(loss, z)[0]]


@pytest.mark.parametrize(("name", "option", "value"), CASES)
def test_an_option_of_the_penalty_matters(name, option, value):
    plain, changed = effect(name, {}), effect(name, {option: value})
    assert not all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(plain, changed, strict=True))


@pytest.mark.parametrize("name", OWN)
def test_options_that_need_company_matter_too(name):
    ramp = {"scale": 0.1, "scale_end": 0.9}
    ramped = [effect(name, ramp | {"ramp_epochs": n})[0] for n in (5, 50)]
    assert ramped[0] > ramped[1] > effect(name, {"scale": 0.1})[0]


def test_the_rank_of_full_covariances_matters():
    losses = [effect("full_gmm_cem", {"rank": rank})[0] for rank in (2, 4)]
    assert losses[0] < losses[1]


def test_detached_attention_passes_no_gradient_to_its_parameters():
    z, y = torch.rand(20, 2, 3, 2, dtype=torch.float64), torch.arange(20) % 4
    for attention, trains in (("joint", True), ("adversarial", True), ("detached", False)):
        defense = make("gated_pooling", {"attention": attention})
        loss, _ = defense.penalty(step_of(z.requires_grad_(), y))
        loss.backward()
        assert all((p.grad is not None) == trains for p in defense.parameters())


def test_no_option_is_left_out():
    """Every option of every CEM defense stands in this file or in the slot test beside it."""
    tested = set(PENALTY) | {"scale_end", "ramp_epochs", "refresh_every", "refit", "pace"}
    tested |= {"refit_share", "rounds"}
    slots = {name for options in SLOTS for name in options}
    own = {name: set(options) for name, options in OWN.items()} | {
        "full_gmm_cem": {"components", "rank"},
        "slot_attention": slots | {"attention", "shutoff_steps", "gate_floor"},
    }
    assert own.keys() == set(CEM)
    for name, options in own.items():
        assert options_of(DEFENSES[name]).model_fields.keys() <= tested | options


def test_lam_steps_are_a_table_over_the_epochs():
    """The reference code multiplies lambda by .001 / lr until lr falls below 4.1e-4."""
    table = ((0, 0.02), (60, 0.1), (120, 0.5), (180, 1.0))
    defense = make("kmeans_cem", {"lam_steps": table, "scale": 3.0})
    seen = {}
    for defense.epoch in (1, 59, 60, 119, 120, 179, 180, 239):
        seen[defense.epoch] = defense.current_scale / 3
    expected = [0.02, 0.02, 0.1, 0.1, 0.5, 0.5, 1.0, 1.0]
    assert list(seen.values()) == pytest.approx(expected)
