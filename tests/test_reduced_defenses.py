"""Defenses that send less: which features, in how many bits, in which directions."""

import numpy as np
import pytest
import torch

from smashbench.defenses import quantise
from smashbench.defenses.channel_dropout import ChannelDropout
from smashbench.defenses.projection import Projection
from smashbench.defenses.quantise import Quantise
from smashbench.defenses.topk import TopK

SHAPE = (4, 3, 2)


def refreshed(defense, z, y=None):
    defense.refresh(z, torch.zeros(len(z), dtype=torch.int64) if y is None else y)
    return defense.eval()


def test_quantised_features_are_the_nearest_level_between_the_quantiles():
    z = torch.randn(2001, *SHAPE)
    low, high = np.quantile(z.numpy(), [0.001, 0.999], method="nearest")
    defense = refreshed(Quantise(SHAPE, 3, bits=2), z)
    torch.testing.assert_close(defense.levels, torch.tensor([low, high]))
    levels = np.linspace(low, high, 4)
    nearest = np.abs(z.numpy()[..., None] - levels).argmin(-1)
    np.testing.assert_allclose(defense(z).detach().numpy(), levels[nearest], atol=1e-6)
    assert len(defense(z.requires_grad_()).unique()) == 4  # and not scaled anew for every batch
    assert set(defense(z[:1]).unique().tolist()) <= set(defense(z).unique().tolist())
    assert defense.payload(z) == 2 * 24


def test_quantisation_by_hand_and_its_gradient_goes_straight_through():
    defense = Quantise((6,), 3, bits=2)  # levels 0, 1/3, 2/3, 1
    z = torch.tensor([[-0.2, 0.1, 0.17, 0.6, 0.9, 1.3]], requires_grad=True)
    sent = defense(z)
    expected = torch.tensor([[0, 0, 1 / 3, 2 / 3, 1, 1]])
    torch.testing.assert_close(sent, expected)
    sent.sum().backward()
    assert z.grad.tolist() == [[0, 1, 1, 1, 1, 0]]  # none where it is clipped
    one = Quantise((3,), 3, bits=1)(torch.tensor([[0.2, 0.49, 0.51]]))
    assert one.tolist() == [[0, 0, 1]]
    z = torch.rand(50, 6)
    torch.testing.assert_close(Quantise((6,), 3, bits=16)(z), z, atol=1e-5, rtol=0)  # harmless


def test_dithered_levels_are_neighbours_of_the_feature_and_right_on_average():
    defense = Quantise((1,), 3, bits=2, dithered=True)
    z = torch.tensor([[0.5], [0.1], [1.0], [0.0]])
    draws = torch.stack([defense(z) for _ in range(4000)])
    assert draws[:, 0].unique().tolist() == pytest.approx([1 / 3, 2 / 3])
    assert draws[:, 1].unique().tolist() == pytest.approx([0, 1 / 3])
    assert draws[:, 2].unique().tolist() == [1]
    assert draws[:, 3].unique().tolist() == [0]
    torch.testing.assert_close(draws.mean(0), z, atol=0.015, rtol=0)
    # P(2/3) = 1/2 for .5, P(1/3) = .3 for .1
    assert float((draws[:, 1] > 0).float().mean()) == pytest.approx(0.3, abs=0.03)


def test_levels_of_constant_features_are_finite():
    z = torch.full((20, 6), 0.3, requires_grad=True)
    sent = refreshed(Quantise((6,), 3, bits=8), z.detach())(z)
    torch.testing.assert_close(sent.detach(), z.detach())
    sent.sum().backward()
    assert z.grad.isfinite().all()


def test_top_k_is_of_each_image_by_absolute_value_and_leaves_its_input_alone():
    z = torch.randn(30, *SHAPE) * torch.logspace(-2, 1, 30).view(30, 1, 1, 1)
    before, flat = z.clone(), z.flatten(1).numpy()
    sent = TopK(SHAPE, 3, rate=0.75)(z)
    assert torch.equal(z, before)
    expected = np.zeros_like(flat)
    for image, row in enumerate(flat):
        largest = sorted(range(24), key=lambda d: -abs(row[d]))[:6]
        expected[image, largest] = row[largest]
    np.testing.assert_array_equal(sent.flatten(1).numpy(), expected)
    assert ((sent != 0).flatten(1).sum(1) == 6).all()  # of small images, too
    assert (sent < 0).any()
    equal = TopK((8,), 3, rate=0.5)(torch.ones(2, 8))
    assert (equal != 0).sum(1).tolist() == [4, 4]


def test_top_k_counts_values_and_places():
    z = torch.rand(1, 8, 8, 8)
    assert TopK((8, 8, 8), 3, rate=0.5).payload(z) == 32 * 256 + 512  # a bit for each place
    assert TopK((8, 8, 8), 3, rate=0.98).payload(z) == 32 * 10 + 10 * 9  # indices are shorter
    assert TopK((8, 8, 8), 3, rate=0.0).payload(z) == 32 * 512


@pytest.mark.parametrize(
    ("shape", "axes"), [((16, 4, 4), (2, 3)), ((9, 16), (1,)), ((16,), ())], ids=str
)
def test_whole_channels_are_dropped_at_inference_and_what_stays_is_as_it_was(shape, axes):
    z = torch.rand(500, *shape) + 1
    defense = ChannelDropout(shape, 3, rate=0.25).eval()
    sent = defense(z)
    kept = sent != 0
    assert torch.equal(sent[kept], z[kept])
    by_channel = kept.float().mean(axes) if axes else kept.float()
    assert by_channel.shape == (500, 16)
    assert set(by_channel.unique().tolist()) == {0.0, 1.0}
    assert float(by_channel.mean()) == pytest.approx(0.75, abs=0.02)
    assert not torch.equal(kept, defense(z) != 0)
    assert defense.payload(z) == 24 * z[0].numel() + 16
    assert not ChannelDropout(shape, 3, rate=0.0).randomized


def literal_principal(z: np.ndarray, k: int) -> np.ndarray:
    """The projection (D, D) onto the k principal directions of float64 rows."""
    values, vectors = np.linalg.eigh(np.cov(z.T))
    chosen = vectors[:, np.argsort(-values)[:k]]
    return chosen @ chosen.T


def test_pca_is_the_projection_on_the_principal_directions_of_the_training_features():
    mix = torch.randn(24, 24, dtype=torch.float64)
    z = (torch.randn(300, 24, dtype=torch.float64) @ mix).view(300, *SHAPE)
    flat = z.flatten(1).numpy()
    defense = refreshed(Projection(SHAPE, 3, directions=5).double(), z)
    test = torch.randn(7, *SHAPE, dtype=torch.float64)
    mean = flat.mean(0)
    expected = (test.flatten(1).numpy() - mean) @ literal_principal(flat, 5) + mean
    np.testing.assert_allclose(defense(test).flatten(1).numpy(), expected, atol=1e-8)
    # in the basis of the training features, whatever else is in the batch
    torch.testing.assert_close(defense(test[:1]), defense(test)[:1])
    torch.testing.assert_close(defense(defense(test)), defense(test))
    assert defense.payload(test) == 5 * 32
    torch.testing.assert_close(
        refreshed(Projection(SHAPE, 3, directions=99).double(), z)(test), test
    )


def test_lda_keeps_the_means_of_the_classes_and_then_goes_on_with_what_is_left():
    y = torch.arange(300) % 4
    means = 3 * torch.randn(4, 24, dtype=torch.float64)
    mix = torch.diag(torch.linspace(0.1, 2, 24, dtype=torch.float64))
    z = means[y] + torch.randn(300, 24, dtype=torch.float64) @ mix
    defense = refreshed(Projection((24,), 4, directions=3, kind="lda").double(), z, y)
    found = torch.stack([z[y == label].mean(0) for label in range(4)])
    torch.testing.assert_close(defense(found), found)  # three directions span four means
    total = z.mean(0)
    between = sum(
        (y == c).double().mean() * torch.outer(found[c] - total, found[c] - total) for c in range(4)
    )
    top = torch.linalg.eigh(between).eigenvectors[:, -2:]
    two = refreshed(Projection((24,), 4, directions=2, kind="lda").double(), z, y)
    torch.testing.assert_close(two.basis @ two.basis.T, top @ top.T)
    more = refreshed(Projection((24,), 4, directions=9, kind="lda").double(), z, y)
    torch.testing.assert_close(more(found), found)
    residual = (z - total) - (z - total) @ defense.basis @ defense.basis.T
    rest = literal_principal(residual.numpy(), 6)
    expected = defense.basis @ defense.basis.T + torch.from_numpy(rest)
    torch.testing.assert_close(more.basis @ more.basis.T, expected)


def test_lda_of_classes_that_are_not_all_there_goes_on_with_what_is_left():
    """Two of ten classes are one direction; eight of nine are the principal ones of the rest."""
    y = torch.arange(200) % 2
    z = torch.randn(200, 24, dtype=torch.float64) @ torch.diag(
        torch.linspace(0.1, 2, 24, dtype=torch.float64)
    )
    z[y == 1] += 1
    few, many = (
        refreshed(Projection((24,), classes, directions=9, kind="lda").double(), z, y)
        for classes in (2, 10)
    )
    torch.testing.assert_close(many.basis @ many.basis.T, few.basis @ few.basis.T)


def test_a_projection_is_the_same_under_autocast_and_copes_with_features_that_diverged():
    z = torch.rand(100, 24)
    z[3] = torch.nan
    defense = refreshed(Projection((24,), 3, directions=4), z)
    plain = defense(z[:3])
    assert plain.isfinite().all()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(defense(z[:3]), plain)


def test_classes_count_by_their_size_in_lda():
    y = torch.tensor([0] * 200 + [1] * 60 + [2] * 30 + [3] * 10)
    means = 3 * torch.randn(4, 12, dtype=torch.float64)
    z = means[y] + 0.5 * torch.randn(300, 12, dtype=torch.float64)
    defense = Projection((12,), 4, directions=2, kind="lda").double()
    defense.refresh(z, y)
    found, total = torch.stack([z[y == c].mean(0) for c in range(4)]), z.mean(0)
    between = sum(
        (y == c).double().mean() * torch.outer(found[c] - total, found[c] - total) for c in range(4)
    )
    top = torch.linalg.eigh(between).eigenvectors[:, -2:]
    torch.testing.assert_close(defense.basis @ defense.basis.T, top @ top.T)


def test_levels_are_of_images_spread_over_all(monkeypatch):
    monkeypatch.setattr(quantise, "SAMPLED", 600)
    z = torch.linspace(0, 1, 1000)[:, None] + torch.zeros(1000, 6)  # stored in order
    defense = quantise.Quantise((6,), 2)
    defense.refresh(z, torch.zeros(1000, dtype=torch.int64))
    assert defense.levels.tolist() == pytest.approx([0, 1], abs=0.02)
