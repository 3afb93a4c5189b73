"""Promises of ``smashbench check`` that components break one at a time: each is named, and they
alone."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from smashbench.attacks.mean import Mean
from smashbench.bench.experiment.models.base import SplitModel
from smashbench.datasets import Dataset, Part, Split
from tests.test_broken_components import broken, halves, model

Parts = dict[str, Part]


def data(change: Callable[[Parts], object], **more: object) -> type[Dataset]:
    class Mine(Dataset):
        """Noise in two classes."""

        needs_data = False

        def load(self, root=None):
            stream = torch.Generator().manual_seed(0)
            parts = {
                name: Part(torch.rand(40, 3, 16, 16, generator=stream), torch.arange(40) % 2)
                for name in ("train", "val", "aux", "test")
            }
            change(parts)
            return Split.build(parts, 2)

    for name, value in more.items():
        setattr(Mine, name, value)
    return Mine


def seeded(self: Dataset, *, seed: int = 0) -> None:
    self.seed = seed


def other(name: str, **parts: torch.Tensor) -> Callable[[Parts], object]:
    return lambda all_of: all_of.update({name: all_of[name]._replace(**parts)})


def drawn() -> torch.Tensor:
    return torch.rand(40, 3, 16, 16).square()


SEEDED = """Noise.

Args:
    seed: of nothing.
"""
UNEVEN = torch.tensor([0] * 38 + [1] * 2)


@pytest.mark.parametrize(
    ("mine", "reason"),
    [
        (data(lambda p: p.update(val=p["train"])), "'val' has images that are in another part"),
        (data(other("aux", y=UNEVEN)), "the classes of 'aux' have from 2 to 38 images: deal"),
        (data(lambda p: other("aux", x=drawn())(p)), "two loads give different images"),
        (data(lambda _: None, __init__=seeded, __doc__=SEEDED), "its seed changes nothing"),
    ],
    ids=["shared images", "uneven classes", "random images", "idle seed"],
)
def test_a_data_set_breaks_one_promise(mine, reason):
    (found,) = set(broken("DATASETS", mine).values())
    assert found.startswith(reason)


def test_a_data_set_that_keeps_all_of_them():
    assert broken("DATASETS", data(lambda _: None)) == {}


class Moves(Mean):
    """A mean that stores over an option.

    Args:
        least: nothing.
    """

    def __init__(self, *, least: int = 1) -> None:
        self.least = least

    def fit(self, knowledge):
        self.least = 3
        return super().fit(knowledge)


class Silent(Mean):
    """A mean whose fit returns nothing."""

    def fit(self, knowledge):
        super().fit(knowledge)


def mean(**facts: object) -> type[Mean]:
    return type("Mine", (Mean,), {"__doc__": "A mean.", **facts})


@pytest.mark.parametrize(
    ("mine", "reason"),
    [
        (Moves, "fit changes what the constructor stored"),
        (Silent, "fit should return self"),
        (mean(kind="magic"), "kind = 'magic' should be one of floor, closed_form, trained"),
        (mean(needs=frozenset({"everything"})), "should be a set of pairs, unpaired"),
        (mean(noise_aware=1), "noise_aware should be True or False"),
        (mean(converged_=1), "converged_ should be True or False"),
        (mean(history_=[torch.tensor(1.0)]), "history_ should be a list of Python's numbers"),
    ],
)
def test_an_attack_breaks_a_promise(mine, reason):
    assert any(reason in found for found in broken("ATTACKS", mine).values())


class Centred(nn.Module):
    """Features relative to the mean of the batch."""

    def forward(self, z):
        return (z - z.mean(0)).sigmoid()


def ends_in(layer: nn.Module) -> type:
    def build(_, shape, classes):
        encoder, head = halves(*shape[:2], classes)
        return SplitModel(nn.Sequential(encoder[0], layer), head)

    return model(build)


def short(_, shape, classes):
    return SplitModel(*halves(*shape[:2], classes - 1))


@pytest.mark.parametrize(
    ("mine", "reason"),
    [
        (ends_in(nn.Tanh()), "end the encoder in a sigmoid"),
        (ends_in(Centred()), "features of an image depend on the other images of its batch"),
        (model(short), "the head gives (4, 6) for four releases and 7 classes"),
    ],
)
def test_a_model_breaks_a_promise(mine, reason):
    assert any(reason in found for found in broken("MODELS", mine).values())
