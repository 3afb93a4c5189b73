"""Penalties on what features tell: against literal loops in float64 and values by hand."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.defenses import DEFENSES
from smashbench.defenses.base import Step
from smashbench.defenses.hsic import Hsic, kernel
from smashbench.defenses.jacobian import Jacobian
from smashbench.defenses.label_smoothing import LabelSmoothing
from smashbench.defenses.siamese import Siamese
from smashbench.defenses.stack import Stack
from smashbench.defenses.vib import Vib
from tests.fitted import step_of, victim_of

SHAPE = (2, 3, 2)


def batch(n=17, classes=4):
    z = torch.rand(n, *SHAPE, dtype=torch.float64, requires_grad=True)
    images = torch.rand(n, 3, 4, 4, dtype=torch.float64, requires_grad=True)
    return Step(images, torch.arange(n) % classes, z, lambda z: z)


def literal_hsic(k: np.ndarray, other: np.ndarray) -> float:
    n = len(k)
    h = np.eye(n) - np.ones((n, n)) / n
    return float(np.trace(k @ h @ other @ h)) / (n - 1) ** 2


def literal_kernel(rows: np.ndarray, width: float | None = None) -> np.ndarray:
    n = len(rows)
    d = np.array([[np.linalg.norm(rows[i] - rows[j]) for j in range(n)] for i in range(n)])
    if width is None:
        pairs = sorted(d[i, j] for i, j in combinations(range(n), 2))
        width = pairs[(len(pairs) - 1) // 2]
    return np.exp(-(d**2) / (2 * width**2))


def test_hsic_is_its_formula_and_a_step_lowers_the_dependence_on_images():
    step = batch()
    penalty, seen = Hsic(SHAPE, 4, weight=3.0, label_weight=0.5).penalty(step)
    z = step.features.detach().flatten(1).numpy()
    kx = literal_kernel(step.images.detach().flatten(1).numpy())
    kz = literal_kernel(z)
    ky = literal_kernel(np.eye(4)[step.labels.numpy()], width=math.sqrt(2))
    expected = 3 * literal_hsic(kx, kz) - 0.5 * literal_hsic(kz, ky)
    assert float(penalty.detach()) == pytest.approx(expected, rel=1e-10)
    assert float(seen["hsic_images"]) == pytest.approx(literal_hsic(kx, kz), rel=1e-10)
    penalty, before = Hsic(SHAPE, 4, weight=1.0, label_weight=0.0).penalty(step)
    (gradient,) = torch.autograd.grad(penalty, step.features)
    moved = step.features.detach() - 0.1 * gradient / gradient.norm()
    _, after = Hsic(SHAPE, 4).penalty(Step(step.images, step.labels, moved, lambda z: z))
    assert after["hsic_images"] < before["hsic_images"]


def test_hsic_of_equal_samples_and_of_one_is_finite():
    for z in (torch.ones(6, 3, requires_grad=True), torch.ones(1, 3, requires_grad=True)):
        penalty, _ = Hsic((3,), 4).penalty(step_of(z, torch.zeros(len(z), dtype=torch.int64)))
        penalty.backward()
        assert penalty.isfinite()
        assert z.grad.isfinite().all()


def test_the_contrastive_penalty_is_the_mean_over_pairs():
    step = batch()
    z, y = step.features.detach().flatten(1).numpy(), step.labels.tolist()
    costs = []
    for i, j in combinations(range(len(z)), 2):
        d = math.sqrt(float(((z[i] - z[j]) ** 2).sum()) + 1e-7)
        costs.append(max(0.0, 1.3 - d) if y[i] != y[j] else d)
    penalty, seen = Siamese(SHAPE, 4, weight=2.0, margin=1.3).penalty(step)
    assert float(penalty.detach()) == pytest.approx(2 * np.mean(costs), rel=1e-10)
    assert float(seen["contrastive"]) == pytest.approx(np.mean(costs), rel=1e-10)


def test_the_contrastive_penalty_by_hand_draws_a_class_together_and_others_apart():
    z = torch.tensor([[0.0, 0], [3, 4], [0, 1]], requires_grad=True)
    y = torch.tensor([0, 0, 1])
    penalty, _ = Siamese((2,), 2, weight=1.0, margin=2.0).penalty(step_of(z, y))
    # pairs: the same class, 5 apart; others 1 apart, 2 - 1; others sqrt(18) apart, 0
    assert float(penalty.detach()) == pytest.approx((5 + 1 + 0) / 3, rel=1e-5)
    penalty.backward()
    assert (z.grad[1] > 0).all()  # descending moves it towards the first
    assert z.grad[2, 1] < 0  # and this one away
    equal = torch.ones(4, 2, requires_grad=True)
    same = Siamese((2,), 2).penalty(step_of(equal, torch.zeros(4, dtype=torch.int64)))[0]
    same.backward()
    assert equal.grad.isfinite().all()


def test_the_jacobian_penalty_is_the_frobenius_norm_per_pixel_on_average():
    """A linear encoder, whose Jacobian is known."""
    torch.manual_seed(0)
    mix = torch.randn(12, 48)
    images = torch.rand(4000, 3, 4, 4, requires_grad=True)
    z = (images.flatten(1) @ mix.T).view(-1, *SHAPE)
    step = Step(images, torch.zeros(4000, dtype=torch.int64), z, lambda z: z)
    penalty, seen = Jacobian(SHAPE, 4, weight=2.0).penalty(step)
    expected = float(mix.square().sum()) / 48  # tr(J'J) / P
    assert float(seen["jacobian"]) == pytest.approx(expected, rel=0.03)
    assert float(penalty.detach()) == pytest.approx(2 * float(seen["jacobian"]))


def test_the_jacobian_penalty_shrinks_the_jacobian_of_a_bent_encoder():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Sigmoid())
    optimiser = torch.optim.SGD(encoder.parameters(), 1.0)
    x = torch.rand(64, 3, 2, 2)

    def size() -> float:
        found = torch.func.vmap(torch.func.jacrev(lambda one: encoder(one[None])[0]))(x)
        return float(found.detach().square().sum((1, 2, 3, 4)).mean())

    before = size()
    for _ in range(30):
        images = x.clone().requires_grad_()
        step = Step(images, torch.zeros(64, dtype=torch.int64), encoder(images), lambda z: z)
        penalty, _ = Jacobian((8,), 4, weight=3.0).penalty(step)
        optimiser.zero_grad()
        penalty.backward()
        optimiser.step()
    assert size() < 0.7 * before


def test_the_jacobian_penalty_is_float32_where_the_features_are_not():
    images = torch.rand(5, 3, 4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        z = nn.Linear(48, 12)(images.flatten(1)).view(-1, *SHAPE)
        step = Step(images, torch.zeros(5, dtype=torch.int64), z.float(), lambda z: z)
        penalty, _ = Jacobian(SHAPE, 4).penalty(step)
    assert z.dtype == torch.bfloat16
    assert penalty.dtype == torch.float32
    penalty.backward()
    assert penalty.isfinite()


def test_training_hands_images_that_can_be_differentiated_to_those_that_ask(photos):
    victim = victim_of("small", "jacobian", {"weight": 0.1}, photos.shape, photos.classes)
    training = Training(epochs=1, batch_size=50, precision="fp32")
    (row,) = train(victim, photos, training).history
    assert row["jacobian"] > 0
    assert Stack({"jacobian": victim.defense, "vib": Vib((8, 8, 8), 10)}).differentiates_images
    step = Step(torch.rand(2, 3, 4, 4), torch.zeros(2), torch.rand(2, *SHAPE), lambda z: z)
    with pytest.raises(ValueError, match="require no gradient"):
        Jacobian(SHAPE, 4).penalty(step)


def test_the_bottleneck_pays_the_divergence_from_the_prior():
    defense = Vib(SHAPE, 4, weight=0.25).double()
    with torch.no_grad():
        defense.slope.normal_()
        defense.offset.normal_()
    step = batch()
    z = step.features.detach()
    sigma = torch.nn.functional.softplus(defense.slope * z + defense.offset).detach()
    prior = torch.distributions.Normal(torch.zeros(()).double(), torch.ones(()).double())
    nats = torch.distributions.kl_divergence(torch.distributions.Normal(z, sigma), prior)
    penalty, seen = defense.penalty(step)
    expected = float(nats.flatten(1).sum(1).mean())
    assert float(seen["vib_nats"]) == pytest.approx(expected, rel=1e-10)
    assert float(penalty.detach()) == pytest.approx(0.25 * expected, rel=1e-10)
    draws = torch.stack([defense.eval()(z) for _ in range(1500)])
    assert ((draws.mean(0) - z).abs() < 5 * sigma / 1500**0.5).all()
    torch.testing.assert_close(draws.std(0).detach(), sigma, atol=0.02, rtol=0.12)


def test_a_step_on_the_bottleneck_adds_noise():
    defense = Vib(SHAPE, 4, weight=1.0)
    penalty, before = defense.penalty(step_of(torch.rand(8, *SHAPE), torch.arange(8) % 4))
    penalty.backward()
    assert (defense.offset.grad < 0).all()  # descending raises the noise from .05 towards 1
    assert float(before["vib_noise"]) == pytest.approx(math.log1p(math.exp(-3)), rel=1e-5)


def test_the_learned_noise_has_a_pace_of_its_own(photos):
    """Else it would hardly move in a training, whatever its weight."""
    grown = []
    for pace in (1.0, 10.0):
        options = {"weight": 0.1, "pace": pace}
        victim = victim_of("small", "vib", options, photos.shape, photos.classes)
        training = Training(epochs=2, batch_size=50, lr=0.003, precision="fp32")
        noise = train(victim, photos, training).history[-1]["vib_noise"]
        grown.append(noise - math.log1p(math.exp(-3)))
    assert grown[1] > 3 * grown[0] > 0


def test_smoothed_targets_are_those_of_torch_and_may_be_negative():
    logits, labels = torch.randn(9, 5), torch.arange(9) % 5
    for smoothing in (0.0, 0.1, 0.9):
        found = nn.functional.cross_entropy(
            logits, LabelSmoothing(SHAPE, 5, smoothing=smoothing).targets(labels)
        )
        expected = nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)
        torch.testing.assert_close(found, expected)
    sharp = LabelSmoothing(SHAPE, 5, smoothing=-0.5).targets(torch.tensor([2]))
    torch.testing.assert_close(sharp, torch.tensor([[-0.1, -0.1, 1.4, -0.1, -0.1]]))


def test_no_gradient_goes_through_the_width_of_a_kernel():
    squares = torch.rand(5, 5, dtype=torch.float64).requires_grad_()
    (kernel(squares).sum()).backward()
    first, second = torch.triu_indices(5, 5, 1)
    width = squares.detach()[first, second].median()
    torch.testing.assert_close(squares.grad, (squares.detach() / (-2 * width)).exp() / (-2 * width))


def test_the_noise_of_the_bottleneck_teaches_the_encoder():
    defense = DEFENSES["vib"]((4,), 2)
    with torch.no_grad():
        defense.slope.fill_(2.0)
    z = torch.rand(6, 4, requires_grad=True)
    defense.sigma(z).sum().backward()
    assert (z.grad > 0).all()
