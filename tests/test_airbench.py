"""The network of the speed runs, and what its training adds."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from smashbench.bench.experiment.average import DECAY, EVERY, Average, recalibrate
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.models.airbench import Whitening
from smashbench.bench.experiment.train import _half, _optimiser, _schedule, train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.defenses import Defense
from tests.fitted import victim_of


def settings(**changes) -> Training:
    return Training(**{"epochs": 2, "batch_size": 50, "lr": 0.003, "precision": "fp32"} | changes)


SIZES = {"middle": ("airbench", {"size": "middle"}), "reference": ("airbench", {})}
SIZES["large"] = ("airbench_large", {})


@pytest.mark.parametrize("size", SIZES)
def test_features_are_those_of_the_field_and_filters_hand_their_inputs_on(size):
    name, options = SIZES[size]
    split = MODELS[name](**options).build((3, 32, 32), 10)
    assert split.feature_shape((3, 32, 32)) == (8, 8, 8)
    for layer in split.encoder.modules():
        if isinstance(layer, nn.Conv2d) and layer.bias is None:
            inputs = min(layer.in_channels, layer.out_channels)
            dirac = torch.zeros_like(layer.weight[:inputs])
            dirac[range(inputs), range(inputs), 1, 1] = 1
            assert torch.equal(layer.weight[:inputs], dirac)


@pytest.mark.parametrize("stride", [1, 2])
def test_whitened_patches_are_uncorrelated_and_of_unit_variance(photos, stride):
    layer = Whitening(3, stride, frozen=True)
    layer.prepare(photos.train.x)
    size = 3 if stride == 1 else 2
    images = layer.centre(photos.train.x)
    patches = nn.functional.unfold(images, size, stride=size).mT.flatten(0, 1)
    filters = layer.filters.weight.flatten(1)
    axes = filters if stride == 1 else filters[: len(filters) // 2]
    covariance = (patches @ axes.T).T.cov()
    values = torch.linalg.eigvalsh(patches.double().T.cov()).flip(0).float()
    shrunk = values / (values + 5e-4)  # the published 5e-4 under the root
    torch.testing.assert_close(covariance, torch.diag(shrunk), rtol=0, atol=2e-3)
    if stride == 2:
        assert torch.equal(filters[len(axes) :], -axes)


def test_the_whitening_is_prepared_once_and_only_its_biases_learn(photos):
    victim = Victim(MODELS["airbench"](size="middle"), Defense, photos.shape, photos.classes)
    layer = next(m for m in victim.encoder.modules() if isinstance(m, Whitening))
    other = Whitening(3, 2, frozen=True)
    other.prepare(photos.train.x)
    train(victim, photos, settings(optimiser="muon", lr=0.1))
    assert torch.equal(layer.filters.weight, other.filters.weight)
    assert layer.filters.bias.abs().min() > 0


@pytest.mark.parametrize(("whitening", "learns"), [(True, False), (False, True)])
def test_before_the_first_block_of_the_large_one_nothing_learns(photos, whitening, learns):
    model = MODELS["airbench_large"](width=0.05, whitening=whitening)
    victim = Victim(model, Defense, photos.shape, photos.classes)
    train(victim, photos, settings(epochs=1, optimiser="muon", lr=0.1))
    filters = victim.encoder[0].filters
    assert [p.requires_grad for p in filters.parameters()] == [learns, learns]
    assert (filters.bias.abs().max() > 0) == learns
    assert [m.out_channels for m in victim.encoder if isinstance(m, nn.Conv2d)] == [
        *(3, 3, 13, 13, 13), 8
    ]  # fmt: skip


def test_running_averages_by_hand():
    def averaged(kind: str, steps: int) -> tuple[Average, Tensor]:
        part = nn.Module()
        part.p = nn.Parameter(torch.zeros(1))
        victim = SimpleNamespace(encoder=part, head=nn.Identity())
        average = Average(victim, settings(average=kind, recalibrate=True), steps)
        for step in range(1, steps + 1):
            with torch.no_grad():
                part.p += 1
            average.follow(step)
        return average, part.p.detach()

    average, p = averaged("ema", 2 * EVERY)  # starts at 5, then sees 10
    assert float(p) == 2 * EVERY
    average.settle()
    assert float(p) == pytest.approx(DECAY * DECAY * 5 + (1 - DECAY**2) * 5 + (1 - DECAY) * 5)
    _, p = averaged("lookahead", 2 * EVERY)  # the decay at the end is DECAY
    assert float(p) == pytest.approx(5 + (1 - DECAY) * 5)
    average, p = averaged("none", 2 * EVERY)
    average.settle()
    assert float(p) == 2 * EVERY


def test_recalibrated_statistics_are_those_of_the_final_weights(photos):
    victim = victim_of("small", "none", {}, photos.shape, photos.classes)
    recalibrate(victim, photos.train.x, 50)
    first = next(m for m in victim.encoder if isinstance(m, nn.BatchNorm2d))
    kept = len(photos.train.x) // 50 * 50
    order = torch.randperm(len(photos.train.x), generator=torch.Generator().manual_seed(0))
    z = victim.encoder[:2](photos.train.x[order[:kept]])
    torch.testing.assert_close(first.running_mean, z.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    parts = torch.stack([part.var((0, 2, 3)) for part in z.split(50)]).mean(0)
    torch.testing.assert_close(first.running_var, parts, rtol=1e-4, atol=1e-5)
    assert first.momentum == 0.1
    assert not first.training
    drawn = torch.rand(2)
    torch.manual_seed(0)
    victim_of("small", "none", {}, photos.shape, photos.classes)
    torch.testing.assert_close(torch.rand(2), drawn, rtol=0, atol=0)  # its stream was left alone


def test_recalibrated_statistics_do_not_depend_on_the_stored_order(photos):
    """Batches of one class each, as many sets are stored, have less variance than any in training;
    8 batches of 25, whose mean varies by a fifth."""
    x, y = photos.train.x, photos.train.y
    found = []
    for order in (y.argsort(stable=True), torch.randperm(len(x))):
        torch.manual_seed(1)
        victim = victim_of("small", "none", {}, photos.shape, photos.classes)
        recalibrate(victim, x[order], 25)
        found.append(next(m for m in victim.encoder if isinstance(m, nn.BatchNorm2d)).running_var)
    torch.testing.assert_close(found[0], found[1], rtol=0.2, atol=1e-6)


def test_targets_that_a_defense_softens_are_not_smoothed_again(photos):
    def first_loss(smoothing: float) -> float:
        torch.manual_seed(0)
        victim = victim_of(
            "small", "label_smoothing", {"smoothing": 0.3}, photos.shape, photos.classes
        )
        training = settings(epochs=1, batch_size=len(photos.train.x), label_smoothing=smoothing)
        return train(victim, photos, training).history[0]["loss"]

    assert first_loss(0.2) == first_loss(0.0)


def test_two_epochs_show_every_image_both_ways(photos, monkeypatch):
    seen = []

    def spy(x, training, flips):
        seen.append((x.flatten(1).sum(1), flips))
        return x

    monkeypatch.setattr("smashbench.bench.experiment.train.augment", spy)
    victim = victim_of("small", "none", {}, photos.shape, photos.classes)
    train(victim, photos, settings(flip="alternating"))
    half = len(seen) // 2
    sums, flips = (torch.cat([entry[i] for entry in seen]) for i in range(2))
    n = len(sums) // 2
    first = dict(zip(sums[:n].tolist(), flips[:n].tolist(), strict=True))
    second = dict(zip(sums[n:].tolist(), flips[n:].tolist(), strict=True))
    assert half
    assert first.keys() == second.keys()
    assert all(first[image] != second[image] for image in first)
    assert 0.3 < sum(first.values()) / len(first) < 0.7


def test_the_alternating_half_is_drawn_by_the_seed():
    y = torch.zeros(100)
    torch.manual_seed(1)
    first = _half(y)
    torch.rand(5)
    assert torch.equal(_half(y), first)
    torch.manual_seed(2)
    assert not torch.equal(_half(y), first)


def test_linear_rates_rise_and_fall_to_nothing():
    victim = victim_of("small", "none", {}, (3, 32, 32), 10)
    training = settings(epochs=10, schedule="linear", warmup=0.2, optimiser="muon", lr=0.1)
    schedule = _schedule(_optimiser(victim, training), training, 10)
    rates = []
    for _ in range(100):
        rates.append(schedule.get_last_lr()[1])
        schedule.optimizer.step()
        schedule.step()
    assert max(rates) == pytest.approx(0.1, rel=0.06)
    assert rates.index(max(rates)) in (19, 20)
    assert rates[0] == pytest.approx(0.1 / 21)
    assert rates[-1] == pytest.approx(0.1 / 80)
    assert schedule.get_last_lr()[1] == pytest.approx(0)


def test_smoothed_labels_have_the_loss_of_the_mixture(photos):
    """An untrained loss with smoothing 1 - 1e-9 would be that of uniform targets; with 0 and 0.5
    the loss after the same draw differs by half of the way."""

    def first_loss(smoothing: float) -> float:
        torch.manual_seed(0)
        victim = victim_of("small", "none", {}, photos.shape, photos.classes)
        training = settings(epochs=1, batch_size=len(photos.train.x), label_smoothing=smoothing)
        return train(victim, photos, training).history[0]["loss"]

    plain, half, most = first_loss(0.0), first_loss(0.5), first_loss(0.999)
    assert half == pytest.approx((plain + most) / 2, rel=1e-2)
