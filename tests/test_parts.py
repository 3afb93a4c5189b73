"""Images, and facts about them, that no trial could be finished on."""

import pytest
import torch

from smashbench.bench.experiment.parts import mistakes_in, too_few
from smashbench.datasets import Part, Split

PARTS = ("train", "val", "aux", "test")
Y = torch.arange(20) % 2


def split(name: str = "aux", **facts) -> Split:
    """Grey images with these facts in a part, or other images in it."""
    part = Part(torch.rand(20, 1, 8, 8), Y)
    return Split.build(dict.fromkeys(PARTS, part) | {name: part._replace(**facts)}, 2)


def test_what_a_part_may_know_is_right():
    assert list(mistakes_in(split())) == []
    facts = {"groups": Y, "identities": Y, "attributes": torch.stack([Y, Y], 1)}
    assert list(mistakes_in(split(**facts))) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"groups": Y.int()}, "part 'aux' has groups (20,), int32: (N,), int64"),
        ({"groups": Y[:, None]}, "part 'aux' has groups (20, 1), int64: (N,), int64"),
        ({"identities": Y.float()}, "part 'aux' has identities (20,), float32: (N,), int64"),
        ({"attributes": Y}, "part 'aux' has attributes (20,), int64: (N, A), int64"),
        ({"x": torch.rand(20, 1, 8, 4)}, "images of (1, 8, 4), others of (1, 8, 8)"),
        ({"x": torch.rand(20, 3, 8, 8)}, "images of (3, 8, 8), others of (1, 8, 8)"),
        ({"x": torch.rand(20, 1, 8, 8).double()}, "images of float64: float32 in [0, 1], or uint8"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(facts, words):
    (found,) = mistakes_in(split(**facts))
    assert words in found


def test_attributes_of_nine_images_are_too_few():
    known = torch.where(torch.arange(20) < 9, 1, -1)[:, None]
    (found,) = too_few(split(attributes=known))
    assert "part 'aux' has 9 images with attributes, too few to infer any" in found
    known[9] = 0
    assert list(too_few(split(attributes=known))) == []


@pytest.mark.parametrize(
    ("facts", "few"),
    [
        ({}, False),
        ({"x": torch.rand(1, 1, 8, 8), "y": Y[:1]}, True),
        ({"groups": Y * 0 + 7}, True),
        ({"groups": Y}, False),
        ({"groups": Y, "y": Y - 1}, True),
        ({"groups": Y, "y": (Y - 1).index_fill(0, torch.tensor(0), 1)}, False),
    ],
    ids=["alone", "one image", "one group", "two groups", "one classified group", "two"],
)
def test_images_of_one_group_say_nothing_of_others(facts, few):
    found = list(too_few(split("test", **facts)))
    assert len(found) == few
    assert all("no interval can be given: test on images of two groups or more" in f for f in found)
