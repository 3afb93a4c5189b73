"""What CEM defenses and trainings report beside the loss, against values worked by hand."""

import math

import numpy as np
import pytest
import torch

from smashbench.bench.experiment.watch import watch
from smashbench.bench.report.figures.diagnostics import _message
from smashbench.datasets import Part
from smashbench.defenses.class_variance import ClassVariance
from smashbench.defenses.gated_pooling import GatedPooling
from smashbench.defenses.gmm_cem import watched
from smashbench.defenses.groups import Groups
from smashbench.defenses.kmeans_cem import KMeansCem
from tests.fitted import batch, make, step_of, victim_of
from tests.test_frontier import board, row


def seen(defense, z, y):
    """Diagnostics past the warm-up."""
    defense.epoch = defense.warmup_epochs
    found = defense.double().eval().penalty(step_of(z.double(), y))[1]
    return {name: float(value) for name, value in found.items()}


def test_gates_are_active_above_tau_and_variances_are_in_units_of_it():
    """Two samples at a distance of .2, .2 and .02: variances of .01, .01 and .0001."""
    z, y = torch.tensor([[0.0, 0, 0], [0.2, 0.2, 0.02]]), torch.tensor([0, 0])
    found = seen(ClassVariance((3,), 1, tau=0.001, noise=0.1), z, y)
    assert found["active_gates"] == pytest.approx(2 / 3)
    assert found["variance_q50"] == pytest.approx(10)
    assert found["variance_q10"] == pytest.approx(0.1 + 0.2 * (10 - 0.1))


def test_occupancy_is_the_share_of_the_clusters_that_a_batch_has():
    """Two classes of two clusters; the batch has one sample of each class and one more."""
    defense = KMeansCem((1,), 2, clusters=2, noise=0.1)
    defense.centres[:] = torch.tensor([[[0.0], [1.0]], [[0.0], [1.0]]])
    defense.weights[:] = 0.5
    z, y = torch.tensor([[0.1], [0.9], [0.2]]), torch.tensor([0, 0, 1])
    assert seen(defense, z, y)["occupancy"] == pytest.approx(3 / 4)


def test_components_per_sample_count_what_a_sample_is_shared_by():
    """One sample is of one component, one of two equally: 1.5 in the mean."""
    r = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    groups = Groups.of(torch.tensor([0, 0]), 1, r.dtype)
    found = watched(r, r.sum(0, keepdim=True), groups)
    assert float(found["components_per_sample"]) == pytest.approx(1.5)
    assert float(found["occupancy"]) == 1


def test_effective_samples_are_all_where_attention_is_uniform():
    """Classes of five and of three samples: four in the mean."""
    z, y = torch.rand(8, 4), torch.tensor([0] * 5 + [1] * 3)
    found = seen(GatedPooling((4,), 2, attention="uniform", noise=0.1), z, y)
    assert found["effective_samples"] == pytest.approx(4)
    assert found["samples_per_class"] == pytest.approx(4)
    attended = seen(GatedPooling((4,), 2, noise=0.1), 5 * z, y)
    assert 1 < attended["effective_samples"] < 4


def test_slots_report_their_entropy_their_class_gate_and_what_is_open():
    """One slot holds all: no entropy, all samples count; the class gate is that of the half of
    the batch that each class has."""
    defense = make("slot_attention", {"shutoff_steps": 0, "slots": 1}, classes=2)
    z, y = batch(12, 2)
    y = torch.arange(12) % 2
    found = {name: float(value) for name, value in defense.penalty(step_of(z, y))[1].items()}
    assert found["slot_mass_entropy"] == pytest.approx(0, abs=1e-9)
    assert found["effective_samples"] == pytest.approx(6)
    gate = 1 / (1 + math.exp(-defense.class_sharpness * (0.5 - defense.class_threshold)))
    assert found["class_gate"] == pytest.approx(gate)
    several = make("slot_attention", {"shutoff_steps": 0, "slots": 4}, classes=2)
    found = several.penalty(step_of(z, y))[1]
    assert 0 < float(found["slot_mass_entropy"]) <= math.log(4)


def test_the_radius_is_the_sum_of_the_variances_and_capacity_counts_them_in_noise():
    """Features of every image lie .5 from the mean of their class in one of the dimensions."""
    victim = victim_of("small", "noise", {"noise": 0.5}, (3, 32, 32), 2)
    z = torch.zeros(4, *victim.feature_shape)
    z[:, 0, 0, 0] = torch.tensor([0.0, 1.0, 0.0, 1.0])
    victim.encode = lambda x: z
    part = Part(torch.zeros(4, 3, 32, 32), torch.tensor([0, 0, 1, 1]))
    found = watch(victim, part, 2)
    assert found["class_radius"] == pytest.approx(0.25)
    assert found["class_variance"] == pytest.approx(0.25 / z[0].numel())
    assert found["capacity_nats"] == pytest.approx(math.log(1 + 0.25 / 0.5**2) / 2)


def test_the_title_names_the_least_variance_that_is_a_number():
    """A training that broke ends in NaN, which is less than nothing."""
    rows = [row("none", None, 0.9, 0.01), row("broken", 1, 0.9, 0.02), row("cem", 1, 0.9, 0.03)]
    for each, value in zip(rows, (0.5, math.nan, 0.1), strict=True):
        each.history = {"class_variance": np.array([value])}
    assert _message(board(*rows)) == "hand: cem 1 leaves 20 % of the variance within classes"
