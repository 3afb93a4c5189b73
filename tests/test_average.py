"""Averages of weights, and statistics that are taken anew."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from smashbench.bench.experiment.average import DECAY, EVERY, Average, recalibrate
from smashbench.bench.experiment.train import train
from tests.test_train import settings, victim


def test_statistics_are_those_of_the_averaged_weights(photos):
    model = victim(photos, "none")
    train(model, photos, settings(epochs=3, batch_size=20, average="ema", recalibrate=True))
    layers = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    before = [m.running_mean.clone() for m in layers]
    recalibrate(model, photos.train.x, 20)
    for layer, mean in zip(layers, before, strict=True):
        torch.testing.assert_close(layer.running_mean, mean, rtol=1e-3, atol=1e-4)


def test_statistics_of_the_head_are_those_of_releases(photos):
    model = victim(photos, "noise", noise=2.0)
    recalibrate(model, photos.train.x, 50)
    (first, *_) = [m for m in model.head.modules() if isinstance(m, nn.BatchNorm2d)]
    seen = []
    model.head[0].register_forward_hook(lambda m, i, o: seen.append(o.detach()))
    model.predict(model.release(photos.train.x))
    assert float(first.running_var.mean()) == pytest.approx(
        float(torch.cat(seen).var((0, 2, 3)).mean()), rel=0.1
    )


def test_a_part_of_a_batch_is_left_out_of_the_statistics(photos):
    model = victim(photos, "none")
    x = torch.cat([photos.train.x[:100], photos.train.x[100:101]])
    recalibrate(model, x, 50)
    order = torch.randperm(101, generator=torch.Generator().manual_seed(torch.initial_seed()))
    z = model.encoder[:2](x[order[:100]])
    first = next(m for m in model.encoder if isinstance(m, nn.BatchNorm2d))
    torch.testing.assert_close(first.running_mean, z.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)


def test_the_decay_of_lookahead_grows_with_the_cube_of_the_time():
    part = nn.Module()
    part.p = nn.Parameter(torch.zeros(1))
    average = Average(
        SimpleNamespace(encoder=part, head=nn.Identity()),
        settings(average="lookahead", recalibrate=True),
        3 * EVERY,
    )
    for step in range(1, 3 * EVERY + 1):
        with torch.no_grad():
            part.p += 1
        average.follow(step)
    second = 5 + (1 - DECAY * (2 / 3) ** 3) * 5
    assert float(part.p.detach()) == pytest.approx(second + (1 - DECAY) * 5)
