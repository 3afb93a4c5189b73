"""What is measured of a victim and of an attack."""

import numpy as np
import pytest
import torch
from torch import nn

from smashbench.bench.experiment.measure import correct_share
from smashbench.bench.experiment.metrics.score import summary_of
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.scoring import flags_of, summarise
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.watch import capacity, watch
from smashbench.defenses import Defense
from tests.fitted import victim_of
from tests.test_train import victim


def test_accuracy_is_of_releases_and_of_several_where_they_are_random(photos):
    noisy = victim_of("small", "noise", {"noise": 0.5}, photos.shape, photos.classes).eval()
    noisy.head = nn.Sequential(nn.Flatten(), nn.Linear(512, 10))
    z = noisy.encode(photos.test.x)
    found = correct_share(noisy, z, noisy.predict(z), 0)
    assert {0, 1, 2, 3} < set((5 * found).round().int().tolist())  # fifths: of five releases
    assert found.mean() < 0.8  # and not of clean features
    plain = victim_of("small", "none", {}, photos.shape, photos.classes).eval()
    assert set(correct_share(plain, plain.encode(photos.test.x), photos.test.y, 0).tolist()) <= {
        0.0,
        1.0,
    }


def test_what_is_watched_is_of_releases_and_of_what_noise_is_added_to(photos):
    model = victim(photos, "noise", noise=100.0)
    model.head = nn.Sequential(nn.Flatten(), nn.Linear(512, 10))
    part = photos.val._replace(y=model.predict(model.encode(photos.val.x)))
    assert watch(model, part, 10)["val_accuracy"] < 0.6  # of clean features it would be 1
    model.defense.transform = lambda z: 10 * z
    expected = capacity(10 * model.encode(part.x), part.y, 10, 100.0)
    assert watch(model, part, 10)["capacity_nats"] == pytest.approx(expected)


def test_releases_are_of_evaluation_mode(photos):

    class Mode(Defense):
        def transform(self, z):
            return z + float(self.training)

    model = Victim(MODELS["small"](), Mode, photos.shape, photos.classes)
    z = model.encode(photos.test.x[:4])
    for ask in (model.protect, model.transform):
        model.train()
        assert torch.equal(ask(z), z)


def test_within_five_percent_of_the_mean_image_an_attack_has_failed():
    for error, failed in ((0.0949, False), (0.0951, True)):
        said = summarise({"mse": np.full(20, error, np.float32)}, {"mse": 0.1})["metrics"]
        assert flags_of(said, {"mse": 0.1}, True) == ["attack_failed"] * failed
        assert flags_of(said, {"mse": 0.1}, False) == ["not_converged", *["attack_failed"] * failed]


def test_quantiles_are_named_by_what_they_are():
    found = summary_of(np.arange(101.0))
    named = {n: getattr(found, n) for n in type(found).model_fields if n.startswith("q")}
    assert named == {n: pytest.approx(float(n[1:])) for n in named}
    assert found.std == pytest.approx(np.arange(101).std())
