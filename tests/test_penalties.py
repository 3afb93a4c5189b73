"""The penalties against literal loops and values worked by hand."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from smashbench.defenses.gated_pooling import GatedPooling
from smashbench.defenses.kmeans_cem import KMeansCem
from tests import reference
from tests.fitted import VARIANTS, batch, gradients, make, step_of

HAND = torch.tensor([[0.0, 0.0], [0.2, 0.1], [-0.1, 0.05], [0.15, -0.05]], dtype=torch.float64)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
@pytest.mark.parametrize(("n", "classes"), [(24, 4), (7, 4), (1, 4), (16, 200)])
def test_penalty_and_gradients_equal_the_literal_loops(name, options, n, classes):
    """With missing classes, classes of one sample, one sample in all, and 200 classes."""
    defense = make(name, options, classes, n=3 * classes)
    z, y = batch(n, classes)
    fast, _ = defense.penalty(step_of(z, y))
    slow = reference.penalty(z, y, defense)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)
    features, *own = zip(gradients(fast, z, defense), gradients(slow, z, defense), strict=True)
    torch.testing.assert_close(*features, rtol=0, atol=1e-10)
    sign = {"adversarial": -1, "detached": 0}.get(options.get("attention", ""), 1)
    for a, b in own:
        torch.testing.assert_close(a, sign * b, rtol=0, atol=1e-10)


def test_kmeans_by_hand():
    defense = KMeansCem(
        (2, 1, 1), 2, clusters=2, noise=0.1, var_threshold=0.2, gamma=1e-6, lam=1.0
    ).double()
    defense.epoch = 1
    defense.centres[1] = torch.tensor([[-0.05, 0.025], [0.175, 0.025]])
    defense.weights[1] = torch.tensor([0.5, 0.5])
    loss, _ = defense.penalty(step_of(HAND.view(4, 2, 1, 1), torch.ones(4, dtype=torch.long)))
    assert float(loss.detach()) == pytest.approx(
        0.85147, abs=5e-6
    )  # v = .5 * .003125 + .5 * .00625


def test_gated_attention_by_hand(monkeypatch):
    monkeypatch.setattr("smashbench.defenses.gated_pooling.layer_norm", lambda z, shape: z)
    defense = GatedPooling(
        (2, 1, 1), 2, variance="trace", noise=0.1, var_threshold=0.2, gamma=1e-6,
        warmup_epochs=0, scale=1.0,
    )  # fmt: skip
    logits = defense.logits
    logits.vu, logits.w = nn.Linear(2, 4, bias=False), nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        logits.vu.weight.copy_(torch.eye(2).repeat(2, 1))
        logits.w.weight.fill_(1)
    loss, seen = defense.double().penalty(step_of(HAND, torch.ones(4, dtype=torch.long)))
    assert float(loss.detach()) == pytest.approx(2.16710, abs=5e-6)
    attention = torch.tensor([0.237516, 0.278964, 0.232408, 0.251111], dtype=torch.float64)
    assert float(seen["effective_samples"]) == pytest.approx(
        1 / float((attention**2).sum()), rel=1e-5
    )


def test_attention_alone_fools_itself_and_the_diagnostics_say_so():
    """The known trap: features fixed, attention trained, the loss collapses."""
    defense = GatedPooling((32, 2, 2), 10, warmup_epochs=0, scale=1.0)
    z, y = torch.rand(128, 32, 2, 2), torch.arange(128) % 10
    optimiser = torch.optim.Adam(defense.parameters(), 0.05)
    values = []
    for _ in range(60):
        loss, seen = defense.penalty(step_of(z, y))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        values.append((float(loss.detach()), float(seen["effective_samples"])))
    assert values[-1][0] < 0.1 * values[0][0]
    assert values[0][1] > 10
    assert values[-1][1] < 2


@pytest.mark.parametrize("name", ["gated_pooling", "slot_attention"])
def test_adversarial_attention_climbs_and_features_descend(name):
    options = {"shutoff_steps": 0} if name == "slot_attention" else {}
    joint = make(name, options)
    adversarial = make(name, options | {"attention": "adversarial"})
    adversarial.load_state_dict(joint.state_dict())
    z, y = batch(20, 4)
    joint.penalty(step_of(z, y))[0].backward()
    features, z.grad = z.grad, None
    adversarial = deepcopy(adversarial)  # hooks on parameters would be lost here
    adversarial.penalty(step_of(z, y))[0].backward()
    torch.testing.assert_close(z.grad, features)
    pairs = list(zip(adversarial.parameters(), joint.parameters(), strict=True))
    assert any(float(q.grad.norm()) > 0 for _, q in pairs if q.grad is not None)
    for p, q in pairs:
        if q.grad is not None:
            torch.testing.assert_close(p.grad, -q.grad)
