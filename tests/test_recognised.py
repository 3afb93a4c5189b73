"""Re-identification by the features of an evaluator."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate, unfold

from smashbench.bench.experiment.metrics import METRICS, recognised
from smashbench.bench.experiment.metrics.recognised import rank_1_features, rank_5_features
from smashbench.bench.experiment.metrics.reidentified import rank_1


def images(n: int, *shape: int) -> Tensor:
    """Smooth ones, so that they have edges at more than one scale."""
    coarse, fine = torch.rand(n, 3, 4, 4), torch.rand(n, 3, 16, 16)
    return sum(interpolate(part, shape, mode="bilinear") / 2 for part in (coarse, fine))


def literal(x: Tensor, filters: Tensor) -> Tensor:
    """Features as they are written down: patch by patch, in float64."""
    x, filters = x.double(), filters.double().flatten(1)
    found = []
    for image in x:
        patches = unfold(image[None], 10, stride=2)[0].T
        patches = patches - patches.mean(1, keepdim=True)
        patches = patches / (patches.var(1, correction=0, keepdim=True) + 0.01).sqrt()
        alike = (patches @ filters.T).T.reshape(-1, 12, 12)
        parts = torch.cat((alike.clamp_min(0), -alike.clamp_max(0)))
        found.append(parts.reshape(-1, 4, 3, 4, 3).mean((2, 4)).flatten())
    return torch.stack(found)


def test_features_are_those_of_normalised_patches_averaged_over_cells():
    x = images(5, 32, 32)
    filters = recognised._filters(x)
    assert filters.shape == (64, 3, 10, 10)
    torch.testing.assert_close(
        recognised._features(x, filters).double(), literal(x, filters), rtol=1e-4, atol=1e-6
    )


def test_filters_are_patches_whitened_twice_over(monkeypatch):
    """A product of whitened patches is one of a patch and a patch whitened twice: of the patches
    themselves, whose covariance is then that of the shrunk inverse."""
    monkeypatch.setattr(recognised, "SHRINKAGE", 1e-9)
    monkeypatch.setattr(recognised, "CONTRAST", 1e-9)
    x = torch.rand(300, 1, 9, 9)
    filters = recognised._filters(x).flatten(1).double()
    patches = unfold(x, 3).mT.flatten(0, 1).double()
    patches = patches - patches.mean(1, keepdim=True)
    patches = patches / patches.std(1, correction=0, keepdim=True)
    # Whitened patches have a variance of one in every direction that they have, so a filter, of
    # which one is of length one, meets them with a variance of one.
    assert (patches @ filters.T).square().mean(0) == pytest.approx(1, abs=0.05)


def test_the_mean_image_is_at_chance_and_a_copy_is_always_found():
    x = images(50, 32, 32)
    mean = x.mean(0).expand_as(x)
    assert float(rank_1_features(x, mean).sum()) == pytest.approx(1)
    assert float(rank_5_features(x, mean).sum()) == pytest.approx(5)
    assert rank_1_features(x, x).min() == 1


def test_it_recognises_what_the_distance_of_pixels_does_not():
    """Reconstructions in the dark, and of little contrast: pixels are nearest to a dark image."""
    x = images(60, 32, 32)
    guess = 0.05 + 0.1 * x
    assert rank_1(x, guess).mean() < 0.2
    assert rank_1_features(x, guess).mean() > 0.95


def test_images_that_are_equally_similar_share_the_chance():
    x = images(10, 16, 16)
    x[1] = x[0]
    found = rank_1_features(x, x)
    assert found.tolist() == pytest.approx([0.5, 0.5, *[1.0] * 8])
    assert rank_5_features(x, x).min() == 1


@pytest.mark.parametrize("shape", [(1, 2, 2), (1, 8, 8), (3, 16, 12), (3, 48, 64), (1, 112, 92)])
def test_images_of_any_size(shape):
    x = torch.rand(12, *shape)
    assert rank_1_features(x, x).mean() == pytest.approx(1)
    assert rank_1_features(x, x.roll(1, 0)).mean() < 0.5


def test_both_ranks_cost_one_pass_and_no_other_pair_is_taken_for_it(monkeypatch):
    x = images(20, 16, 16)
    first, again = images(20, 16, 16), images(20, 16, 16)
    calls = []
    places = recognised._places
    monkeypatch.setattr(recognised, "_LAST", {})
    monkeypatch.setattr(recognised, "_places", lambda *each: calls.append(1) or places(*each))
    ranks = rank_1_features(x, first), rank_5_features(x.clone(), first.clone())
    assert len(calls) == 1
    assert (ranks[0] <= ranks[1]).all()
    rank_1_features(x, again)
    rank_1_features(again, x)
    assert len(calls) == 3


def test_many_images_are_compared_in_parts(monkeypatch):
    x, guess = images(30, 16, 16), images(30, 16, 16)
    whole = rank_5_features(x, guess)
    monkeypatch.setattr(recognised, "_LAST", {})
    monkeypatch.setattr(recognised, "AT_ONCE", 8)
    assert rank_5_features(x, guess).tolist() == whole.tolist()


def test_a_lower_value_is_more_private():
    for name in ("rank_1_features", "rank_5_features"):
        assert METRICS[name].better == "lower"
        assert METRICS[name].bounds == (0, 1)
