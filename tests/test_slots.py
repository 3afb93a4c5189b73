"""Slot attention: its six gates, and the mistakes others made first."""

import math

import pytest
import torch
from torch import nn

from smashbench.defenses.slot_attention import SlotAttention
from tests.fitted import SHAPE, batch, make, step_of


def test_slots_measure_and_never_predict_the_variance():
    """Scaling the features about their class means scales what the slots measure."""
    defense = SlotAttention(
        SHAPE, 1, shutoff_steps=0, measure="features", slots=1, snr_sharpness=0.0
    ).double().eval()  # fmt: skip
    for parameter in defense.dimension_gate.parameters():
        nn.init.zeros_(parameter)  # both sigmoid gates are now 1/2
    defense.epoch = defense.warmup_epochs
    z, y = batch(30, 1)
    v = z.detach().flatten(1).var(0, correction=0) + 1e-8
    gate = 1 / (1 + math.exp(-10 * (1 - 0.05)))
    margin = torch.nn.functional.softplus((v / defense.tau).log() - 0.1)
    loss, _ = defense.penalty(step_of(z, y))
    assert float(loss.detach()) == pytest.approx(gate * 0.25 * float(margin.mean()) * defense.scale)


def test_slots_compete_over_the_samples_of_a_class():
    """A sample of another class must not change a class's slots."""
    defense = make("slot_attention", {"shutoff_steps": 0})
    assert isinstance(defense, SlotAttention)
    defense.class_sharpness = 0.0
    z, _ = batch(12, 4)
    y = torch.tensor([0] * 6 + [1] * 6)
    moved = torch.cat([z[:6], torch.rand(6, *SHAPE, dtype=z.dtype)])
    inputs = z.detach().requires_grad_(), moved.detach().requires_grad_()
    first = [
        torch.autograd.grad(defense.penalty(step_of(i, y))[0], i)[0][:6] for i in inputs
    ]  # class 0's gradient is independent of class 1's samples
    torch.testing.assert_close(*first)
    assert float(first[0].norm()) > 0


def test_slot_shutoff_counts_calls_and_stays_connected():
    defense = make("slot_attention", {"shutoff_steps": 2})
    z, y = batch(20, 4)
    steps = [defense.penalty(step_of(z, y)) for _ in range(3)]
    losses = [loss for loss, _ in steps]
    assert [float(seen["shut_off"]) for _, seen in steps] == [1, 1, 0]
    assert [float(loss.detach()) == 0 for loss in losses] == [True, True, False]
    assert losses[0].grad_fn is not None
    shut = make("slot_attention", {"shutoff_steps": 0, "gate_floor": 0.9})
    loss, seen = shut.penalty(step_of(z, y))
    assert float(loss.detach()) == 0
    assert float(seen["shut_off"]) == 1


SLOTS = [
    {"snr_threshold": 5.0},
    {"snr_sharpness": 1.0},
    {"margin": 1.0},
    {"margin_sharpness": 5.0},
    {"mass_power": 0.0},
    {"class_threshold": 0.5},
    {"class_sharpness": 1.0},
    {"slot_power": 4.0},
    {"rounds": 1},
    {"slots": 2},
    {"width": 32},
    {"measure": "features"},
    {"var_threshold": 1.0},
    {"tau": 0.05},
    {"dimensions": "open"},
    {"contexts": "normalized"},
]
"""Options of slots that change what is penalised, one at a time."""


@pytest.mark.parametrize("options", SLOTS)
def test_every_slot_option_matters(options):
    z, y = batch(20, 4)
    plain = make("slot_attention", {"shutoff_steps": 0}).penalty(step_of(z, y))[0]
    changed = make("slot_attention", {"shutoff_steps": 0} | options).penalty(step_of(z, y))[0]
    assert abs(plain - changed).detach() > 1e-6 * plain.detach()


def fooled(**options) -> tuple[dict[str, float], dict[str, float]]:
    """Diagnostics, and the loss, before and after the defense alone was trained on features that
    stay as they are."""
    torch.manual_seed(0)
    defense = SlotAttention(
        (8, 4, 4), 10, shutoff_steps=0, warmup_epochs=0, scale=1.0, noise=0.2, **options
    )
    y = torch.arange(128) % 10
    z = 0.5 * torch.rand(128, 8, 4, 4) + 0.5 * torch.rand(10, 8, 4, 4)[y]
    optimiser = torch.optim.Adam(defense.parameters(), 3e-3)
    seen = []
    for _ in range(100):
        loss, diagnostics = defense.penalty(step_of(z, y))
        seen.append({name: float(value) for name, value in diagnostics.items()})
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return seen[0], seen[-1]


@pytest.mark.slow
def test_the_penalty_can_fall_by_three_routes_and_the_diagnostics_say_which():
    first, last = fooled()
    assert last["surrogate"] < 0.1 * first["surrogate"]
    assert last["dimension_gate"] < 0.3 * first["dimension_gate"]
    first, last = fooled(dimensions="open")
    assert last["surrogate"] < 0.05 * first["surrogate"]
    assert last["measured_variance"] < 0.1 * first["measured_variance"]
    assert last["effective_samples"] > 12
    first, last = fooled(dimensions="open", measure="features")
    assert last["measured_variance"] == pytest.approx(first["measured_variance"])
    assert last["slot_variance"] < 0.9 * first["slot_variance"]
    assert last["effective_samples"] < 0.8 * first["effective_samples"]


def test_adversarial_slots_do_not_fool_themselves():
    first, last = fooled(attention="adversarial")
    assert last["surrogate"] > first["surrogate"]


def test_gates_that_are_wide_open_do_not_shut_the_penalty_off():
    """Features without class structure have a variance far above their squared mean, for good."""
    defense = make("slot_attention", {"shutoff_steps": 0, "measure": "features"})
    y = torch.arange(40) % 4
    z = 5 * torch.randn(40, *SHAPE, dtype=torch.float64)
    loss, seen = defense.penalty(step_of(z.requires_grad_(), y))
    assert float(seen["snr_gate"]) > 0.9
    assert float(seen["shut_off"]) == 0
    assert float(loss.detach()) > 0


def test_slots_begin_at_random_in_training_and_at_their_mean_in_evaluation():
    """Their spread is learned: where it vanishes, training and evaluation agree."""
    defense = make("slot_attention", {"shutoff_steps": 0})
    z, y = batch(20, 4)

    def losses() -> list[float]:
        return [float(defense.penalty(step_of(z, y))[0].detach()) for _ in range(2)]

    still = losses()
    assert still[0] == still[1]
    defense.train()
    drawn = losses()
    assert drawn[0] != drawn[1]
    torch.nn.init.constant_(defense.context.slot_log_std, -50)
    assert losses() == pytest.approx(still, rel=1e-9)
