"""Re-identification: who is nearest to a reconstruction."""

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors

from smashbench.bench.experiment.metrics import METRICS, reidentified
from smashbench.bench.experiment.metrics.reidentified import rank_1, rank_5


def test_it_is_the_share_of_true_images_among_the_nearest():
    x, noise = torch.rand(40, 3, 8, 8), torch.randn(40, 3, 8, 8)
    guess = (0.1 * x + 0.45 + 0.3 * noise).clamp(0, 1)
    nearest = NearestNeighbors().fit(x.flatten(1).numpy())
    _, found = nearest.kneighbors(guess.flatten(1).numpy(), 5)
    first = (found[:, 0] == np.arange(40)).astype(np.float32)
    among = (found == np.arange(40)[:, None]).any(1).astype(np.float32)
    assert rank_1(x, guess).tolist() == first.tolist()
    assert rank_5(x, guess).tolist() == among.tolist()
    assert 0 < first.mean() < among.mean() < 1


def test_the_mean_image_is_at_chance_and_a_copy_is_always_found():
    x = torch.rand(50, 1, 8, 8)
    assert float(rank_1(x, x.mean(0).expand_as(x)).sum()) == 1
    assert float(rank_5(x, x.mean(0).expand_as(x)).sum()) == 5
    assert rank_1(x, x).min() == 1


def test_many_images_are_compared_in_parts(monkeypatch):
    x, guess = torch.rand(2, 50, 1, 4, 4)
    whole = rank_5(x, guess)
    monkeypatch.setattr(reidentified, "AT_ONCE", 7)
    assert rank_5(x, guess).tolist() == whole.tolist()


def test_a_lower_value_is_more_private():
    for metric in (METRICS["rank_1"], METRICS["rank_5"]):
        assert metric.better == "lower"
        assert metric.bounds == (0, 1)
