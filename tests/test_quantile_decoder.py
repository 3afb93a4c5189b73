"""What a decoder sees of features of very different scales."""

import numpy as np
import torch
from sklearn.preprocessing import QuantileTransformer
from torch.nn.functional import avg_pool2d

from smashbench.attacks.decoder import Decoder
from smashbench.attacks.quantile_decoder import KNOTS, QuantileDecoder
from tests.worlds import error, images, served, world

SMALL = {"width": 16, "blocks": 1, "cycle": 40, "max_steps": 120, "batch_size": 32}


def fitted(z: torch.Tensor) -> QuantileDecoder:
    """On releases ``z`` (N, ...) of images that say nothing."""
    granted = served(world(torch.rand(len(z), 3, 8, 8), lambda x: x), draw=lambda index: z[index])
    return QuantileDecoder(**SMALL | {"cycle": 1, "max_steps": 1}).fit(granted)


def test_quantiles_are_those_of_scikit_learn():
    """Of each channel for itself, and the features as they are before them."""
    torch.manual_seed(0)
    z = torch.rand(400, 2, 3, 3) ** torch.tensor([1.0, 6.0])[:, None, None]
    shown = fitted(z).shown(z)
    assert shown.shape == (400, 4, 3, 3)
    assert torch.equal(shown[:, :2], z)
    for channel in range(2):
        values = z[:, channel].reshape(-1, 1).double().numpy()
        known = QuantileTransformer(n_quantiles=KNOTS, output_distribution="normal", subsample=None)
        expected = known.fit_transform(values).ravel()
        inner = np.abs(expected) < 2.4
        found = shown[:, 2 + channel].double().flatten().numpy()
        np.testing.assert_allclose(found[inner], expected[inner], atol=0.02)


def test_an_increasing_function_of_a_channel_changes_no_quantile():
    torch.manual_seed(0)
    z = torch.randn(300, 3, 2, 2)
    squeezed = (5 * z).sigmoid().double().pow(3).float()
    plain, other = fitted(z).shown(z)[:, 3:], fitted(squeezed).shown(squeezed)[:, 3:]
    assert (plain - other).abs().mean() < 0.01
    assert plain.abs().max() < 4


def test_constants_levels_vectors_and_what_was_never_seen():
    """No level is a division by nothing, and beyond the ends it is constant."""
    z = torch.stack([torch.full((50,), 0.5), torch.arange(50) % 2.0], 1)
    attack = fitted(z)
    shown = attack.shown(torch.tensor([[0.5, 0.0], [0.5, 1.0], [9.0, -9.0], [-9.0, 9.0]]))
    assert shown.shape == (4, 4, 1, 1)
    assert shown.isfinite().all()
    low, high = shown[:2, 3].flatten().tolist()
    assert low < high
    assert shown[2:, 3].flatten().tolist() == [low, attack.normal_[-1]]


def test_a_picture_on_a_scale_that_a_few_values_fill_is_seen():
    """exp(30 z): a tenth of the values hold nearly all of the variance."""
    torch.manual_seed(0)
    x, later = images(400), images(100)

    def release(x: torch.Tensor) -> torch.Tensor:
        return (30 * avg_pool2d(x, 2)).exp()

    errors = []
    for kind in (Decoder, QuantileDecoder):
        torch.manual_seed(0)
        errors.append(error(kind(**SMALL).fit(world(x, release)), later, release))
    assert errors[1] < 0.3 * errors[0]
