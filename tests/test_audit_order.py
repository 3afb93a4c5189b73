"""Features in another order than their images: they would look perfectly private."""

import pytest
import torch

from smashbench.bench.auditing import checks
from smashbench.bench.auditing.checks import check_order, relation
from smashbench.bench.auditing.pairs import Images, Pairs
from smashbench.bench.errors import BenchError

CLASSES, EACH = 4, 60


@pytest.fixture(scope="module")
def kept():
    """Images that are alike within a class, labels, and the means of 2x2 pixels as features."""
    torch.manual_seed(0)
    y = torch.arange(CLASSES * EACH) % CLASSES
    own = torch.rand(len(y), 3, 4, 4)
    x = 0.7 * torch.rand(CLASSES, 3, 4, 4)[y] + 0.3 * own
    x = torch.nn.functional.interpolate(x, (16, 16), mode="bilinear")
    return x, y, torch.nn.functional.avg_pool2d(x, 2)


def within_classes(y):
    order = torch.arange(len(y))
    for label in y.unique():
        own = (y == label).nonzero()[:, 0]
        order[own] = own.roll(1)
    return order


def checked(x, z, repeated=False, **known):
    options = {"labels": None, "groups": None} | known
    pairs = Pairs(images=Images(x), features=z, repeated=repeated, **options)
    check_order(pairs, torch.randperm(len(x), generator=torch.Generator().manual_seed(1)), 1.0)


@pytest.mark.parametrize("known", ["nothing", "labels", "groups"])
def test_the_true_order_is_taken_whatever_is_known(kept, known):
    x, y, z = kept
    checked(x, z, **({} if known == "nothing" else {known: y}))


def test_an_order_at_random_is_refused(kept):
    x, _, z = kept
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(2))
    with pytest.raises(BenchError, match=r"over 240 pairs\)\. Is their order the same"):
        checked(x, z[order])


@pytest.mark.parametrize(("known", "name"), [("labels", "class"), ("groups", "group")])
def test_an_order_that_agrees_in_classes_alone_is_refused_where_they_are_known(kept, known, name):
    x, y, z = kept
    wrong = z[within_classes(y)]
    checked(x, wrong)  # classes alone make them related
    with pytest.raises(BenchError, match=f"within each {name} .* no more than its {name}, say"):
        checked(x, wrong, **{known: y})


def test_channels_are_no_releases(kept):
    """The channels of one image are less alike than one channel of all; releases are more alike,
    however much noise they have."""
    x, _, z = kept
    apart = z + torch.tensor([0.0, 1.0, 2.0])[:, None, None]
    with pytest.raises(BenchError, match=r"the 3 releases .* differ more .* channels"):
        checked(x, apart, repeated=True)
    checked(x, torch.stack([z, z], 1), repeated=True)
    for noise in (0.1, 0.5):
        checked(x, z[:, None] + noise * torch.randn(len(z), 4, *z.shape[1:]), repeated=True)


def test_kinds_of_one_image_each_say_nothing(kept):
    x, _, z = kept
    checked(x, z, groups=torch.arange(len(x)))


def test_parts_of_the_features_say_what_all_of_them_do(monkeypatch):
    """Squared distances add up; with little memory fewer images are looked at."""
    torch.manual_seed(0)
    x = torch.rand(60, 3, 8, 8)
    z = x.flatten(1)[:, :90] + 3 * torch.randn(60, 90)
    whole = relation(z, x)
    monkeypatch.setattr(checks, "NUMBERS", 60 * 7)
    assert relation(z, x) == pytest.approx(whole)
    seen = []
    monkeypatch.setattr(checks, "relation", lambda z, *_: seen.append(len(z)) or 0.0)
    for gigabytes in (1.0, 20 * 4 * 90 / 2**30):
        check_order(Pairs(Images(x), z), torch.arange(60), gigabytes)
    assert seen == [60, 20]
