"""Metrics against scikit-image and values worked by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.metrics import mean_squared_error, peak_signal_noise_ratio, structural_similarity

from smashbench.bench.experiment.metrics import METRICS, Metric
from smashbench.bench.experiment.metrics.mse import mse
from smashbench.bench.experiment.metrics.score import check
from smashbench.bench.experiment.metrics.ssim import ssim
from smashbench.bench.experiment.scoring import score as scores_of

SKIMAGE = {
    "gaussian_weights": True,
    "sigma": 1.5,
    "use_sample_covariance": False,
    "data_range": 1,
    "channel_axis": 0,
}


@pytest.mark.parametrize("shape", [(5, 3, 32, 32), (3, 1, 11, 40), (2, 3, 64, 48)])
@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0])
def test_every_image_agrees_with_scikit_image(shape, spread):
    x = torch.rand(shape)
    guess = (x + spread * (torch.rand(shape) - 0.5)).clamp(0, 1)
    for i, (a, b) in enumerate(zip(x.numpy(), guess.numpy(), strict=True)):
        expected = structural_similarity(a, b, **SKIMAGE)
        assert float(ssim(x, guess)[i]) == pytest.approx(expected, abs=2e-6)
        assert float(mse(x, guess)[i]) == pytest.approx(mean_squared_error(a, b), abs=1e-8)
        if spread:
            expected = peak_signal_noise_ratio(a, b, data_range=1)
            assert float(psnr(x, guess)[i]) == pytest.approx(expected, abs=1e-4)


def psnr(x: torch.Tensor, guess: torch.Tensor) -> np.ndarray:
    """As a report has it: from the scores."""
    return METRICS["psnr"].values({"mse": mse(x, guess).numpy()}, {"mse": 1.0})


def test_ssim_of_less_precise_images_is_computed_in_float32():
    x, guess = torch.rand(2, 3, 3, 16, 16)
    half = guess.bfloat16()
    expected = ssim(x, half.float())
    assert torch.equal(ssim(x, half), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(ssim(x, half.float()), expected)


def test_ssim_of_photographs_and_smooth_images(photos):
    x, guess = photos.test.x[:50], photos.test.x.mean(0).expand(50, -1, -1, -1)
    expected = [
        structural_similarity(a, b, **SKIMAGE)
        for a, b in zip(x.numpy().astype(np.float64), guess.numpy().astype(np.float64), strict=True)
    ]
    np.testing.assert_allclose(ssim(x, guess).numpy(), expected, atol=1e-5)


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_bounds_and_symmetry(seed):
    torch.manual_seed(seed)
    a, b = torch.rand(2, 3, 3, 16, 16)
    assert torch.allclose(ssim(a, b), ssim(b, a), atol=1e-6)
    assert ssim(a, b).abs().max() <= 1
    assert torch.allclose(ssim(a, a), torch.ones(3))
    assert torch.equal(mse(a, b), mse(b, a))


def test_psnr_is_per_image_and_uses_a_range_of_one():
    x = torch.zeros(2, 3, 16, 16)
    guess = torch.stack([torch.full((3, 16, 16), 0.1), torch.full((3, 16, 16), 0.01)])
    assert psnr(x, guess).tolist() == pytest.approx([20, 40])  # with 255 they would be 68 and 88


@pytest.mark.parametrize("score", [check, scores_of])
@pytest.mark.parametrize("bad", [1.5, -0.1, float("nan"), 200.0])
def test_images_out_of_range_are_an_error(score, bad):
    x = torch.zeros(1, 3, 16, 16)
    wrong = x.clone()
    wrong[0, 0, 0, 0] = bad
    with pytest.raises(ValueError, match="reconstruction pixels"):
        score(x, wrong)
    with pytest.raises(ValueError, match="original pixels"):
        score(wrong, x)


def test_shapes_must_match_and_hold_a_window():
    with pytest.raises(ValueError, match="expected two"):
        scores_of(torch.zeros(1, 3, 8, 8), torch.zeros(2, 3, 8, 8))
    with pytest.raises(ValueError, match="at least 11"):
        ssim(torch.zeros(1, 3, 8, 8), torch.zeros(1, 3, 8, 8))


def test_every_metric_is_declared_whole(photos):
    """What is scored is scored per image in its bounds; what is derived comes from what is."""
    x, guess = photos.test.x[:5], photos.test.x[5:10]
    scores = scores_of(x, guess)
    assert scores.keys() == {name for name, metric in METRICS.items() if metric.score}
    floor = {name: float(values.mean()) for name, values in scores.items()}
    for name, metric in METRICS.items():
        assert isinstance(metric, Metric)
        assert metric.name == name
        assert metric.label
        assert (metric.score is None) == (metric.derive is not None)
        assert metric.judge in scores
        values = metric.values(scores, floor)
        assert values.shape == (5,)
        assert values.dtype == np.float64
        assert metric.bounds[0] <= values.min() <= values.max() <= metric.bounds[1]
        mean = metric.values({metric.judge: scores[metric.judge].mean(keepdims=True)}, floor)
        if metric.linear:
            assert float(mean[0]) == pytest.approx(values.mean(), rel=1e-6)
