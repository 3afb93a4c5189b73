"""Attributes that are not the task: what releases tell of them, and how a board shows it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from smashbench.bench.experiment import inferred as inference
from smashbench.bench.experiment.inferred import Probe, inferred
from smashbench.bench.experiment.measure import measure_victim
from smashbench.bench.report.attributes import attribute_estimates
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.report.tables import leaderboard
from smashbench.datasets import Part
from smashbench.datasets.cifar10_animals import Cifar10Animals
from tests.fitted import victim_of
from tests.test_rows import world


@pytest.fixture
def told(photos, monkeypatch):
    """A split whose images have a dark or bright square in a corner, which is an attribute and not
    the task, and a victim that was not trained; probes are short."""
    monkeypatch.setattr(inference, "STEPS", 60)

    def marked(part: Part) -> Part:
        bright = torch.arange(len(part.y)) % 2
        x = part.x.clone()
        x[:, :, :12, :12] = bright[:, None, None, None].float()
        return part._replace(x=x, attributes=bright[:, None])

    parts = {name: marked(getattr(photos, name)) for name in ("train", "val", "aux", "test")}
    return replace(photos, **parts)


@pytest.mark.slow
def test_what_a_release_shows_is_inferred_and_a_prediction_alone_tells_less(told):
    victim = victim_of("small", "none", {}, told.shape, told.classes)
    victim.head = Blind(told.classes)  # predicts the same for everything
    found = inferred(victim, told, victim.encode(told.test.x), 0)
    assert found
    assert found.shares["from_release"].mean() > 0.95
    assert found.shares["from_prediction"].mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.slow
def test_a_prediction_that_is_the_attribute_tells_it(told):
    """Then nothing is inferred beyond it."""
    victim = victim_of("small", "none", {}, told.shape, told.classes)
    victim.head = Reads(victim, told)
    found = inferred(victim, told, victim.encode(told.test.x), 0)
    assert found
    release, prediction = (found.shares[name] for name in ("from_release", "from_prediction"))
    assert prediction.mean() > 0.95
    assert abs(float((release - prediction).mean())) < 0.05


@pytest.mark.slow
def test_it_is_the_same_twice_and_nothing_where_there_are_no_attributes(told, photos):
    victim = victim_of("small", "none", {}, told.shape, told.classes)
    z = victim.encode(told.test.x)
    first, second = (inferred(victim, told, z, 3) for _ in range(2))
    assert first
    assert second
    assert torch.equal(first.shares["from_release"], second.shares["from_release"])
    assert inferred(victim, photos, z, 3) is None


@pytest.mark.slow
def test_a_victims_scores_have_both(told):
    victim = victim_of("small", "none", {}, told.shape, told.classes)
    scores = measure_victim(victim, told, 0, [{"loss": 1.0}]).scores
    names = {"attribute_from_release", "attribute_from_prediction"}
    assert names <= scores.keys()
    assert all(scores[name].shape == told.test.y.shape for name in names)


@pytest.mark.parametrize("shape", [(8, 16, 16), (8, 8, 8), (3, 2, 2), (40,), (5, 6)])
def test_features_of_any_shape_are_probed(shape):
    z = torch.rand(4, *shape)
    probe = Probe(z[:1], 2, [3, 5], sees=True).standardise(z)
    answers = probe(z, torch.rand(4, 2).log_softmax(1))
    assert [each.shape for each in answers] == [(4, 3), (4, 5)]


def test_what_is_beyond_the_prediction_is_paired_image_by_image():
    ours, theirs = np.float32([1, 1, 0, 1]), np.float32([0, 1, 0, 0])
    found = attribute_estimates(
        {"attribute_from_release": ours[None], "attribute_from_prediction": theirs[None]}, None
    )
    assert found["attribute"].mean == pytest.approx(0.75)
    beyond = found["attribute_over_prediction"]
    assert beyond.mean == pytest.approx(0.5)
    error = np.std(ours - theirs, ddof=1) / 2  # paired, image by image
    assert beyond.low == pytest.approx(0.5 - 3.182 * error, abs=1e-3)  # Student, 3 degrees
    assert beyond.high == 1
    assert attribute_estimates({"correct": ours[None]}, None) == {}


def test_boards_without_attributes_have_no_such_column(tmp_path):
    board = world(tmp_path, {"gmm": (0.02, 0.5)})
    assert not [name for name in leaderboard(board) if "attribute" in name]
    board.rows[0].inferred = {"attribute": Estimate(0.5, 0.4, 0.6)}
    assert leaderboard(board)["attribute_high"].tolist() == [0.6]


def test_animals_and_vehicles_are_the_ten_classes_again(sets):
    split = Cifar10Animals(n=400, n_test=100).load(sets)
    assert split.classes == 2
    for part in (split.train, split.aux, split.test):
        assert part.attributes is not None
        fine = part.attributes[:, 0]
        assert fine.unique().tolist() == list(range(10))
        animals = torch.tensor([2, 3, 4, 5, 6, 7])  # bird, cat, deer, dog, frog, horse
        assert torch.equal(part.y, torch.isin(fine, animals).long())


class Blind(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, z):
        return torch.zeros(len(z), self.classes)


class Reads(nn.Module):
    """A head whose prediction is the attribute: it compares a feature with what dark and bright
    corners give."""

    def __init__(self, victim, split) -> None:
        super().__init__()
        z = victim.release(split.aux.x).flatten(1)
        bright = split.aux.attributes[:, 0].bool()
        apart = z[bright].mean(0) - z[~bright].mean(0)
        middle = (z[bright].mean(0) + z[~bright].mean(0)) / 2
        self.apart, self.middle, self.classes = apart, middle @ apart, split.classes

    def forward(self, z):
        side = (z.flatten(1) @ self.apart - self.middle) / self.apart.norm() ** 2
        logits = torch.zeros(len(z), self.classes)
        logits[:, 0], logits[:, 1] = -20 * side, 20 * side
        return logits


def probe_of(told):
    model = victim_of("small", "none", {}, told.shape, told.classes)
    z = model.encode(told.aux.x)
    return model, z, inference.Probe(z[:1], told.classes, [2], sees=True).standardise(z)


@pytest.mark.slow
def test_the_weights_with_the_lowest_validation_loss_count(told, monkeypatch):
    monkeypatch.setattr(inference, "LR", 0.3)  # it gets worse again
    model, z, probe = probe_of(told)
    own = told.aux.attributes[torch.randperm(len(z))]  # nothing to be learned
    errors, real = [], inference._loss

    def spy(answers, truth):
        value = real(answers, truth)
        if not value.requires_grad:
            errors.append(float(value))
        return value

    monkeypatch.setattr(inference, "_loss", spy)
    fit, val = torch.arange(160), torch.arange(160, 200)
    inference._train(probe, model, z, own, fit, val)
    assert len(errors) == inference.LOOKS
    assert errors[-1] > min(errors)
    assert float(real(inference._answers(probe, model, z[val]), own[val])) == pytest.approx(
        min(errors), rel=1e-4
    )


@pytest.mark.slow
def test_the_probe_is_trained_on_fresh_releases(told, monkeypatch):
    monkeypatch.setattr(inference, "STEPS", 20)
    victim = victim_of("small", "noise", {"noise": 0.1}, told.shape, told.classes)
    sizes, protect = [], victim.protect
    monkeypatch.setattr(victim, "protect", lambda z: sizes.append(len(z)) or protect(z))
    inferred(victim, told, victim.encode(told.test.x), 0)
    assert sizes.count(inference.BATCH) == 2 * 20


def test_attributes_are_inferred_from_releases(told, monkeypatch):
    monkeypatch.setattr(inference, "STEPS", 20)
    seen, real = [], inference._answers
    monkeypatch.setattr(
        inference, "_answers", lambda probe, victim, z: seen.append(z) or real(probe, victim, z)
    )
    victim = victim_of("small", "noise", {"noise": 0.5}, told.shape, told.classes)
    z = victim.encode(told.test.x)
    inferred(victim, told, z, 0)
    noise = [each - z for each in seen if len(each) == len(z)]
    assert len(noise) == 2  # of each probe
    assert float(noise[0].std()) == pytest.approx(0.5, rel=0.05)
    assert torch.equal(*noise)


def test_a_probe_answers_without_dropout_and_is_told_probabilities(told):
    model, z, probe = probe_of(told)
    first, second = (inference._answers(probe.train(), model, z[:20])[0] for _ in range(2))
    assert torch.equal(first, second)
    torch.testing.assert_close(inference._told(model, z[:20]).exp().sum(1), torch.ones(20))
