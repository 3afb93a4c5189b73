"""Floors are of the images: measured once for all victims of them, and never of others."""

from dataclasses import replace

import pytest

from smashbench.bench.experiment import measure
from smashbench.bench.experiment.measure import floors_of
from smashbench.bench.experiment.metrics import METRICS
from smashbench.datasets import Part


def test_floors_are_measured_once_for_the_same_images_and_metrics(photos, monkeypatch):
    monkeypatch.setattr(measure, "_MEASURED", [])
    fewer = {name: METRICS[name] for name in ("mse", "ssim")}
    monkeypatch.setattr(measure, "METRICS", fewer)
    measured, floors = [], measure._floors
    monkeypatch.setattr(measure, "_floors", lambda split: measured.append(1) or floors(split))

    first = floors_of(photos)
    assert floors_of(photos) == first
    assert len(measured) == 1

    half = Part(photos.test.x[::2], photos.test.y[::2])
    other = floors_of(replace(photos, test=half))  # the hash is that of the first
    assert other["mean_image"]["mse"] != first["mean_image"]["mse"]

    monkeypatch.setattr(measure, "METRICS", {"mse": METRICS["mse"]})
    assert set(floors_of(photos)["mean_image"]) == {"mse"}
    assert len(measured) == 3


def test_the_mean_image_is_that_of_the_training_images(photos):
    found = floors_of(photos)["mean_image"]["mse"]
    assert found == pytest.approx(
        float((photos.test.x - photos.train.x.mean(0)).square().mean()), rel=1e-5
    )
    assert found != pytest.approx(
        float((photos.test.x - photos.test.x.mean(0)).square().mean()), rel=1e-5
    )
