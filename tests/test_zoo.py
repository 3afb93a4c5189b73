"""The suites `zoo` and `zoo_photos`: every defense and every stack trains at its strongest."""

from math import isfinite

import pytest
import torch

from smashbench.bench.experiment.models.small import Small
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.suite.config import StackConfig
from smashbench.bench.suite.make_defense import maker
from smashbench.bench.suite.toml import load
from smashbench.datasets import Part, Split
from smashbench.defenses import DEFENSES

ROWS: dict[str, list] = {}
for trial in load("zoo").victims:
    if trial.victim.seed == 0:
        ROWS.setdefault(trial.victim.defense.label, []).append(trial.victim.defense)
STACKS = {label for label, rows in ROWS.items() if isinstance(rows[0], StackConfig)}
REFERENCE = {
    *("dropout_noise", "nopeek_noise", "arl_noise", "ressfl_noise", "patrol"),
    *("dropout_cem", "nopeek_cem", "nopeek_noise_cem", "arl_cem", "ressfl_cem", "patrol_cem"),
}
"""Beside `noise`, `nopeek` and, of CEM on noise alone, `kmeans_cem`."""
FIRST = {"local_dp", "bottleneck", "quantise", "quantise_dithered", "projection", "projection_lda"}
"""Rows whose first strength is the strongest: few bits, few directions, a small epsilon."""
FIXED = {"none", "random_projection", "random_permutation"}
"""Nothing to sweep."""


def at_once(config):
    """The same without epochs of waiting."""

    def begun(options):
        return {name: 0 if name in ("warmup_epochs", "shutoff_steps") else value
                for name, value in options.items()}  # fmt: skip

    if isinstance(config, StackConfig):
        parts = [p.model_copy(update={"options": begun(p.options)}) for p in config.parts]
        return config.model_copy(update={"parts": tuple(parts)})
    return config.model_copy(update={"options": begun(config.options)})


@pytest.fixture(scope="module")
def images() -> Split:
    torch.manual_seed(0)
    parts = {
        name: Part(torch.rand(n, 3, 16, 16), torch.arange(n) % 5)
        for name, n in (("train", 60), ("val", 20), ("aux", 20), ("test", 20))
    }
    return Split.build(parts, 5)


@pytest.mark.parametrize(
    "label",
    [name if name in STACKS else pytest.param(name, marks=pytest.mark.slow) for name in ROWS],
)
def test_every_row_trains_at_its_strongest(label, images):
    torch.manual_seed(0)
    config = at_once(ROWS[label][0 if label in FIRST else -1])
    victim = Victim(Small(), maker(config), images.shape, images.classes)
    history = train(
        victim, images, Training(epochs=2, batch_size=30, lr=0.01, precision="fp32")
    ).history
    assert all(isfinite(value) for row in history for value in row.values())
    released = victim.release(images.test.x)
    assert released.isfinite().all()
    assert victim.defense.payload(released) > 0


def test_every_defense_is_on_the_board_with_at_least_four_strengths_and_three_seeds():
    used = {part.name for rows in ROWS.values() for part in rows[0].parts}
    assert used >= DEFENSES.keys() - {"full_gmm_cem"}  # dear, and gmm_cem's close relative
    for label, rows in ROWS.items():
        warning = DEFENSES[rows[0].parts[0].name].group == "warning"
        assert len(rows) >= (1 if label in FIXED else 3 if warning else 4), label
    assert {v.victim.seed for v in load("zoo").victims} == {0, 1, 2}
    assert REFERENCE | {"quantise_class_variance", "dropout_gmm", "projection_noise"} <= STACKS
    for label in REFERENCE:
        parts = {part.name for part in ROWS[label][0].parts}
        assert ("kmeans_cem" in parts) == label.endswith("_cem")


def test_the_small_board_has_the_same_rows():
    few = {trial.victim.defense.label: trial.victim.defense for trial in load("zoo_photos").victims}
    assert few.keys() == ROWS.keys()
    for label, config in few.items():
        names = [part.name for part in ROWS[label][0].parts]
        assert [part.name for part in config.parts] == names
