"""Defenses that would do nothing on their images are refused before they are trained."""

import pytest
import torch

from smashbench.bench.experiment.idle import idle
from smashbench.bench.run.perform import perform
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml as suite
from smashbench.datasets import Part, Split
from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.stack import Stack
from tests.test_train import settings

SHAPE = (2, 4, 4)


def of_classes(*sizes: int) -> Split:
    """Grey images, so many of each class."""
    y = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    part = Part(torch.rand(len(y), 1, 8, 8), y)
    return Split.build(dict.fromkeys(("train", "val", "aux", "test"), part), len(sizes))


def made(name: str, **options) -> Defense:
    return DEFENSES[name](SHAPE, 2, **options)


@pytest.mark.parametrize(
    ("name", "option"),
    [("kmeans_cem", "clusters"), ("gmm_cem", "components"), ("full_gmm_cem", "components")],
)
def test_as_many_centres_as_images_of_every_class_penalise_nothing(name, option):
    images = of_classes(3, 4)
    (line,) = idle(made(name, **{option: 4}), images, settings())
    assert line.startswith(f"{option} = 4: no class has more than 4 training images")
    assert line.endswith("give at most 2")
    assert not [*idle(made(name, **{option: 3}), images, settings())]  # one class has a fourth
    (line,) = idle(made(name, **{option: 1}), of_classes(1, 1), settings())
    assert line.endswith("take another defense")


def test_they_are_found_in_a_stack():
    parts = {"kmeans_cem": made("kmeans_cem", clusters=9, noise=0.0), "noise": made("noise")}
    assert len([*idle(Stack(parts), of_classes(9, 9), settings())]) == 1


def test_a_shutoff_as_long_as_what_comes_after_the_warm_up_is_found():
    images, training = of_classes(50, 50), settings(epochs=5, batch_size=30)  # 3 steps an epoch

    def lines(steps: int) -> list[str]:
        slots = made("slot_attention", warmup_epochs=2, shutoff_steps=steps)
        return [*idle(slots, images, training)]

    assert not lines(8)
    assert lines(9) == [
        "shutoff_steps = 9: 9 steps come after the warm-up, so that nothing would be penalised; "
        "set a lower one, or a higher training.epochs"
    ]


def test_other_defenses_are_left_alone():
    assert not [*idle(made("noise"), of_classes(1, 1), settings())]


def test_such_a_victim_is_not_trained(tmp_path):
    changes = ["defenses={kmeans_cem={clusters=5000}}", "attacks={mean={}}"]
    (trial,) = suite.load("smoke", changes).victims
    with pytest.raises(ValueError, match="clusters = 5000: no class has more than"):
        perform(trial, tmp_path, None, again=False)
    assert Store(tmp_path).victim(trial.key) is None
