"""Penalties in the precision, the range and the batch sizes that they meet."""

import pytest
import torch

from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.adversary import Adversarial
from smashbench.defenses.base import Step
from tests.fitted import CEM, step_of

ELSEWHERE = {"jacobian", "shredder"}
"""Their penalties are functions of the graph before the features, and of no feature."""
PENALTIES = [
    name
    for name, each in DEFENSES.items()
    if each.penalty is not Defense.penalty
    and name not in ELSEWHERE
    and not issubclass(each, Adversarial)  # which learn at every call
]
SHAPE = (8, 2, 2)


def ready(name: str) -> Defense:
    """A defense in float32 past its warm-up, with statistics of random features."""
    torch.manual_seed(1)
    options = {"shutoff_steps": 0} if name == "slot_attention" else {}
    defense = DEFENSES[name](SHAPE, 4, **options).eval()
    defense.epoch = 10
    if type(defense).refresh is not Defense.refresh:
        defense.refresh(torch.rand(400, *SHAPE), torch.arange(400) % 4)
    return defense


def step(z: torch.Tensor) -> Step:
    torch.manual_seed(2)
    return Step(
        torch.rand(len(z), 3, 8, 8, requires_grad=True), torch.arange(len(z)) % 4, z, lambda z: z
    )


@pytest.mark.parametrize("name", PENALTIES)
def test_a_penalty_is_the_same_under_autocast(name):
    defense, z = ready(name), torch.rand(32, *SHAPE)
    plain, _ = defense.penalty(step(z))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(defense.penalty(step(z))[0], plain)
        low = z.bfloat16().requires_grad_()
        value, _ = defense.penalty(step(low))
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, defense.penalty(step(low.detach().float()))[0])
    value.backward()
    assert low.grad.isfinite().all()


@pytest.mark.parametrize("name", CEM)
def test_features_too_large_to_be_squared_are_left_out_and_counted(name):
    defense = ready(name)
    z = torch.rand(32, *SHAPE)
    spoiled = z.clone()
    spoiled[0, 0] = 1e20
    spoiled.requires_grad_()
    loss, seen = defense.penalty(step(spoiled))
    loss.backward()
    assert loss.isfinite()
    assert spoiled.grad.isfinite().all()
    assert float(seen["nonfinite"]) == 1
    large = z * 1e6  # this much still fits
    loss, seen = defense.penalty(step(large))
    assert loss.isfinite()
    assert float(seen["nonfinite"]) == 0


@pytest.mark.parametrize("name", ["kmeans_cem", "gmm_cem", "full_gmm_cem"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e20])
def test_a_refit_leaves_out_what_is_not_finite_and_counts_it(name, value):
    defense = ready(name)
    z, y = torch.rand(400, *SHAPE), torch.arange(400) % 4
    z[0], z[4] = value, value
    z[y == 3] = value  # nothing is left of this class
    defense.refresh(z, y)
    assert float(defense.refit_left_out) == 102
    assert defense.weights.isfinite().all()
    assert defense.weights.sum(1).tolist() == pytest.approx([1, 1, 1, 0])
    loss, seen = defense.penalty(step(torch.rand(32, *SHAPE)))
    assert loss.isfinite()
    assert float(seen["refit_left_out"]) == 102
    defense.refresh(torch.full_like(z, value), y)
    assert float(defense.penalty(step(torch.rand(32, *SHAPE)))[0]) == 0


@pytest.mark.parametrize("name", ["gmm_cem", "full_gmm_cem"])
def test_the_penalty_of_a_mixture_depends_little_on_the_batch_size(name):
    """Two clusters far apart, one of them rare: batches often hold none of it."""
    torch.manual_seed(0)
    y = torch.zeros(4000, dtype=torch.long)
    rare = torch.arange(4000) % 50 == 0
    z = 0.05 * torch.randn(4000, 4) + rare[:, None] * torch.tensor([1.0, 0.5, -0.5, 0.3])
    z = z.double()
    defense = DEFENSES[name]((4,), 1, components=2, noise=0.1).double()
    defense.epoch = 1
    defense.refresh(z, y)

    def penalty(size: int) -> float:
        values = [
            float(defense.penalty(step_of(part, y[: len(part)]))[0]) for part in z.split(size)
        ]
        return sum(values) / len(values)

    whole = penalty(4000)
    assert penalty(20) == pytest.approx(whole, rel=0.15)
    weights = defense.weights[0]
    assert weights.min() == pytest.approx(0.02, abs=0.005)
