"""Every image of a batch is moved, turned and flipped by itself."""

import pytest
import torch

from smashbench.bench.experiment.augment import augment
from tests.test_train import settings


def test_every_image_moves_by_a_draw_of_its_own():
    x = torch.zeros(3000, 1, 9, 9)
    x[:, :, 4, 4] = 1
    torch.manual_seed(0)
    place = augment(x, settings(shift=2, flip="none")).flatten(1).argmax(1)
    moves, counts = torch.stack([place // 9 - 4, place % 9 - 4], 1).unique(
        dim=0, return_counts=True
    )
    assert moves.tolist() == [[a, b] for a in range(-2, 3) for b in range(-2, 3)]
    assert counts.min() > 0.7 * 3000 / 25


def test_every_image_turns_to_either_side():
    x = torch.zeros(500, 1, 33, 33)
    x[:, :, 15:18, 28:31] = 1  # to the right of the centre
    torch.manual_seed(0)
    turned = augment(x, settings(shift=0, flip="none", rotation=20.0))[:, 0]
    rows = torch.arange(33.0)[:, None]
    up = 16 - (turned * rows).sum((1, 2)) / turned.sum((1, 2))
    assert float(up.max()) == pytest.approx(13 * 0.342, abs=0.4)  # sin 20 degrees
    assert float(up.min()) == pytest.approx(-13 * 0.342, abs=0.4)
    assert float((up > 0).float().mean()) == pytest.approx(0.5, abs=0.07)
    assert float(up.std()) == pytest.approx(13 * 0.342 / 3**0.5, rel=0.1)
