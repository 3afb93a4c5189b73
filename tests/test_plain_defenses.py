"""Defenses that are a formula: against values by hand and literal float64 references."""

import numpy as np
import pytest
import torch

from smashbench.defenses.class_variance import ClassVariance
from smashbench.defenses.dropout import Dropout
from smashbench.defenses.nopeek import NoPeek, distance_correlation
from tests.fitted import step_of


def test_dropout_zeroes_a_share_and_leaves_the_rest_as_it_is():
    z = torch.rand(200, 8, 8, 8) + 1
    defense = Dropout((8, 8, 8), 10, rate=0.3).eval()
    released = defense(z)
    kept = released != 0
    assert torch.equal(released[kept], z[kept])  # no rescaling
    assert float(kept.float().mean()) == pytest.approx(0.7, abs=0.005)
    assert not torch.equal(kept, defense(z) != 0)
    assert defense.train()(z).eq(0).float().mean() == pytest.approx(0.3, abs=0.005)
    assert not Dropout((8, 8, 8), 10, rate=0.0).randomized


def test_dropout_sends_what_is_left_and_where():
    z = torch.rand(1, 8, 8, 8)
    assert Dropout((8, 8, 8), 10, rate=0.5).payload(z) == 32 * 256 + 512
    assert Dropout((8, 8, 8), 10, rate=0.0).payload(z) == 32 * 512


def literal_distance_correlation(x: np.ndarray, z: np.ndarray) -> float:
    def centred(values: np.ndarray) -> np.ndarray:
        n = len(values)
        d = np.array([[np.linalg.norm(values[i] - values[j]) for j in range(n)] for i in range(n)])
        return d - d.mean(0) - d.mean(1, keepdims=True) + d.mean()

    a, b = centred(x), centred(z)
    return float(np.sqrt((a * b).mean()) / np.sqrt(np.sqrt((a * a).mean() * (b * b).mean())))


def test_distance_correlation_is_the_definition():
    rng = np.random.default_rng(0)
    x = rng.random((20, 3, 4, 4))
    z = x.reshape(20, -1)[:, :8] ** 2 + 0.3 * rng.random((20, 8))
    found = distance_correlation(torch.from_numpy(x), torch.from_numpy(z))
    expected = literal_distance_correlation(x.reshape(20, -1), z)
    assert float(found) == pytest.approx(expected, abs=1e-4)


def test_distances_of_features_that_are_close_do_not_cancel():
    torch.manual_seed(0)
    x = torch.rand(40, 3, 4, 4, dtype=torch.float64)
    z = 0.5 + 0.003 * torch.rand(40, 128, dtype=torch.float64)
    found = []
    for kind in (torch.float32, torch.float64):
        leaf = z.to(kind).requires_grad_()
        distance_correlation(x, leaf).backward()
        found.append(leaf.grad.double())
    assert float((found[0] - found[1]).norm() / found[1].norm()) < 0.01


def test_distance_correlation_is_one_for_a_scaled_copy_and_small_for_noise():
    x = torch.rand(300, 5)
    assert float(distance_correlation(x, 2 - 3 * x)) == pytest.approx(1, abs=1e-4)
    assert float(distance_correlation(x, torch.rand(300, 5))) < 0.35
    # of one number each: distances 1, 1, 2 and 1, 3, 4 by hand in the literal version
    by_hand = literal_distance_correlation(np.array([[0.0], [1], [2]]), np.array([[0.0], [1], [4]]))
    found = distance_correlation(torch.tensor([[0.0], [1], [2]]), torch.tensor([[0.0], [1], [4]]))
    assert float(found) == pytest.approx(by_hand, abs=1e-4)


def test_equal_images_and_constant_features_have_a_finite_gradient():
    z = torch.rand(6, 4).repeat(2, 1).requires_grad_()
    distance_correlation(torch.rand(6, 3).repeat(2, 1), z).backward()
    assert z.grad.isfinite().all()
    flat = torch.full((6, 4), 0.5, requires_grad=True)
    value = distance_correlation(torch.rand(6, 3), flat)
    value.backward()
    assert value.isfinite()
    assert flat.grad.isfinite().all()


def test_a_step_on_nopeek_lowers_the_correlation():
    torch.manual_seed(0)
    images = torch.rand(40, 3, 4, 4)
    z = images.flatten(1)[:, :16].clone().requires_grad_()
    defense = NoPeek((16,), 10, weight=2.0)
    step = step_of(z, torch.zeros(40, dtype=torch.int64))
    step = type(step)(images, step.labels, z, step.release)
    penalty, diagnostics = defense.penalty(step)
    assert float(penalty.detach()) == pytest.approx(2 * float(diagnostics["distance_correlation"]))
    penalty.backward()
    lower = distance_correlation(images, z - 0.5 * z.grad / z.grad.norm())
    assert lower < diagnostics["distance_correlation"]


def literal_class_variance(z: np.ndarray, y: np.ndarray, gate, variance: str) -> float:
    total = 0.0
    for label in np.unique(y):
        members = z[y == label]
        if len(members) < 2:
            continue
        v = ((members - members.mean(0)) ** 2).mean(0)
        v = {"per_dim": v, "mean": v.mean(keepdims=True), "trace": v.sum(keepdims=True)}[variance]
        total += len(members) / len(z) * np.mean([gate(each) for each in v])
    return total


@pytest.mark.parametrize("variance", ["per_dim", "mean", "trace"])
@pytest.mark.parametrize("gate", ["log", "linear", "capacity"])
def test_class_variance_is_its_formula(gate, variance):
    noise, gamma, threshold = 0.2, 0.01, 0.125
    tau = threshold * noise**2
    gates = {
        "log": lambda v: max(0.0, np.log(v + gamma) - np.log(tau + gamma)),
        "linear": lambda v: v,
        "capacity": lambda v: 0.5 * np.log(1 + v / noise**2),
    }
    z = torch.rand(23, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    y = torch.cat([torch.arange(22) % 4, torch.tensor([5])])  # one class of a single sample
    defense = ClassVariance((2, 3, 2), 7, noise=noise, gate=gate, variance=variance, lam=1.5)
    penalty, _ = defense.double().penalty(step_of(z, y))
    flat = z.detach().numpy().reshape(23, -1)
    expected = 1.5 * literal_class_variance(flat, y.numpy(), gates[gate], variance)
    assert float(penalty.detach()) == pytest.approx(expected, rel=1e-10)
    (gradient,) = torch.autograd.grad(penalty, z)
    moved = (z - 0.01 * gradient / gradient.norm()).detach().numpy().reshape(23, -1)
    assert literal_class_variance(moved, y.numpy(), gates["linear"], "trace") < (
        literal_class_variance(flat, y.numpy(), gates["linear"], "trace")
    )
