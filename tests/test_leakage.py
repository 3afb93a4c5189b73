"""What reconstructions tell beyond pixels: frequencies, bits, the images protected least."""

from math import log2

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from smashbench.bench.experiment.metrics import METRICS, Collective
from smashbench.bench.experiment.metrics.bands import fvu_between, spectrum
from smashbench.bench.experiment.metrics.leaked_bits import ROUNDING, leaked_bits
from smashbench.bench.experiment.metrics.least_protected import least_protected
from smashbench.bench.experiment.scoring import score, summarise

LEAKAGE = [name for name, metric in METRICS.items() if isinstance(metric, Collective)]


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 12)])
def test_the_spectrum_is_the_discrete_cosine_transform(shape):
    x = torch.rand(4, *shape, dtype=torch.float64)
    wanted = np.stack([dctn(image, type=2, norm="ortho") for image in x.numpy()])
    torch.testing.assert_close(spectrum(x), torch.from_numpy(wanted))


def test_bands_add_up_to_the_error():
    """Each band's FVU by the variance of the images in it."""
    x, guess = torch.rand(2, 30, 3, 16, 16, dtype=torch.float64)
    bands = [(0.0, 1 / 8), (1 / 8, 1 / 4), (1 / 4, 1.0)]
    frequency = torch.maximum(*torch.meshgrid(*[torch.arange(16) / 16] * 2, indexing="ij"))
    total = 0.0
    for low, high in bands:
        inside = (frequency >= low) & (frequency < high)
        variance = spectrum(x - x.mean(0))[..., inside].square().sum() / 30
        total += float(fvu_between(x, guess, (low, high)).mean() * variance)
    assert total == pytest.approx(float((x - guess).square().sum()) / 30)


@pytest.mark.parametrize(
    ("cycles", "band"), [(3, "fvu_coarse"), (4, "fvu_middle"), (8, "fvu_fine"), (31, "fvu_fine")]
)
def test_a_wave_is_in_the_band_of_its_frequency(cycles, band):
    """At half the contrast a quarter of its variance is unexplained; of 32 frequencies, 4 are
    coarse and 4 are in the middle."""
    wave = torch.cos(torch.pi / 32 * (torch.arange(32) + 0.5) * cycles).expand(1, 32, 32)
    x = 0.5 + torch.rand(20, 1, 1, 1) * 0.4 * wave
    found = score(x, (x + x.mean(0)) / 2, [band])
    assert found[band].mean() == pytest.approx(0.25, abs=1e-3)


def test_the_mean_image_leaks_nothing(photos):
    x = photos.test.x
    found = score(x, x.mean(0).expand_as(x))
    for name in ("fvu_coarse", "fvu_middle", "fvu_fine"):
        assert found[name].mean() == pytest.approx(1, abs=1e-4)
    assert found["leaked_bits"].mean() == pytest.approx(0, abs=0.05)
    assert found["rank_1"].mean() == pytest.approx(1 / len(x))


def test_bits_are_those_of_a_gaussian_with_known_errors():
    """Axes of variance 4 and 1 and errors of 1/4 and 1/4: 2 + 1 bits; an axis with an error above
    its variance tells none."""
    torch.manual_seed(0)
    z = torch.randn(200_000, 3, dtype=torch.float64)
    spread = torch.tensor([0.4, 0.2, 0.01], dtype=torch.float64)
    error = torch.randn(200_000, 3, dtype=torch.float64) * 0.1
    basis = spectrum(torch.eye(3, dtype=torch.float64).view(3, 1, 1, 3)).view(3, 3)
    x, made = (z * spread) @ basis.T, (z * spread + error) @ basis.T
    found = leaked_bits(x.view(-1, 1, 1, 3), made.view(-1, 1, 1, 3))
    assert float(found.mean()) == pytest.approx(log2(4) + log2(2), abs=0.01)


def test_bits_of_a_perfect_copy_are_those_of_its_8_bits():
    x = torch.rand(500, 1, 2, 2, dtype=torch.float64)
    variance = spectrum(x - x.mean(0)).flatten(1).square().mean(0)
    wanted = float((0.5 * torch.log2(variance / ROUNDING)).sum())
    assert float(leaked_bits(x, x).mean()) == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["leaked_bits", "fvu_worst_5", "fvu_fine"])
def test_the_spread_of_the_values_is_the_error_of_what_they_say(name):
    """Standard errors from one sample are as large as means of many samples vary."""
    rng = torch.Generator().manual_seed(1)

    def values() -> np.ndarray:
        contrast = torch.rand(400, 1, 1, 1, generator=rng)
        x = 0.5 + contrast * (torch.rand(400, 1, 11, 11, generator=rng) - 0.5)
        noise = torch.randn(400, 1, 11, 11, generator=rng) * torch.rand(400, 1, 1, 1, generator=rng)
        guess = (x + 0.2 * noise).clamp(0, 1)
        return METRICS[name].values(score(x, guess, ["mse", name]), {"mse": 1 / 12})

    samples = [values() for _ in range(200)]
    varies = np.std([each.mean() for each in samples])
    says = np.mean([each.std() / len(each) ** 0.5 for each in samples])
    assert says == pytest.approx(varies, rel=0.2)


def test_the_least_protected_images_are_the_twentieth_with_the_lowest_error():
    errors = np.random.default_rng(0).random((3, 200))
    wanted = np.sort(errors, axis=1)[:, :10].mean(1) / 0.5
    assert least_protected(errors, 0.5).mean(1) == pytest.approx(wanted)


def test_records_have_their_means_and_no_quantiles(photos):
    x = photos.test.x[:40]
    scores = score(x, x.roll(1, 0))
    said = summarise(scores, {"mse": 0.05})
    assert set(said["means"]) == set(LEAKAGE)
    assert not set(said["metrics"]) & set(LEAKAGE)
    assert said["means"]["rank_5"] == pytest.approx(scores["rank_5"].mean())
