"""Re-identification: who is nearest to a reconstruction."""

import re

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.metrics.reidentified import REIDENTIFIED, rank_1, rank_5
from smashbench.bench.experiment.scoring import score
from tests.commands import ROOT
from tests.plugged import plug, unplugged


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


def test_a_suite_takes_it_as_a_plug_in(tmp_path):
    """The lines of docs/audit.md; without them, no table has it."""
    assert not set(METRICS) & set(REIDENTIFIED)
    text = (ROOT / "docs" / "audit.md").read_text()
    (lines,) = re.findall(r"```python\n# reidentification\.py\n(.*?)```", text, flags=re.S)
    (tmp_path / "reidentification.py").write_text(lines)
    x = torch.rand(20, 3, 16, 16)
    with unplugged():
        plug([tmp_path / "reidentification.py"])
        found = score(x, x.flip(0))
        assert found["rank_1"].mean() == 0
        assert found["mse"].shape == (20,)


def test_a_lower_value_is_more_private():
    for metric in REIDENTIFIED.values():
        assert metric.better == "lower"
        assert metric.bounds == (0, 1)
