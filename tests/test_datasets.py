"""The data sets' own promises, beyond the contract."""

import itertools

import numpy as np
import pytest
import torch

from smashbench.datasets import DATASETS, DatasetError, Part, Split
from smashbench.datasets.cifar10 import Cifar10
from smashbench.datasets.cifar10_foreign import halved
from smashbench.datasets.facescrub import FaceScrub
from smashbench.datasets.photos import FLAT, PHOTOS, SHARES, Photos, _photo, _regions
from smashbench.datasets.split import stratified
from smashbench.datasets.tiny_imagenet import TinyImageNet


def test_photos_are_the_published_ones():
    """Another hash means other data: every committed result would need a new run."""
    assert Photos(train=200, val=50, aux=100, test=50).load().hash == "447ed8039e2f7b0c"


def test_no_test_pixel_was_ever_trained_on():
    image = _photo("chelsea.png")
    assert min(image.shape[:2]) == 384
    owner = np.full(image.shape[:2], -1)
    parts = _regions(image, np.random.default_rng(0))
    assert list(parts) == list(SHARES)
    for number, corners in enumerate(parts.values()):
        for row, column in corners:
            block = owner[row : row + 64, column : column + 64]
            assert block.shape == (64, 64)
            assert (block == -1).all()
            block[:] = number
    assert {n: int((owner == i).sum()) // 4096 for i, n in enumerate(parts)} == {
        name: len(corners) for name, corners in parts.items()
    }


@pytest.mark.parametrize("photo", ["astronaut", "retina"])
def test_regions_with_a_patch_of_one_colour_are_left_out(photo):
    image = _photo(PHOTOS[photo]).astype(int)
    parts = _regions(image, np.random.default_rng(0)).values()
    dealt = {tuple(corner) for corners in parts for corner in corners.tolist()}
    flat = set()
    for row, column in itertools.product(range(0, 384, 64), range(0, 384, 64)):
        region = image[row : row + 64, column : column + 64]
        patches = np.lib.stride_tricks.sliding_window_view(region, (32, 32), axis=(0, 1))
        if (patches.max((3, 4)) - patches.min((3, 4))).max(2).min() < FLAT:
            flat.add((row, column))
    assert len(flat) == 4
    assert len(dealt) == 36 - 4
    assert not dealt & flat


def test_no_image_is_in_two_regions():
    """The black border of the retina once was: the attacker had images of the test part."""
    photos, regions = Photos(train=2000, val=500, aux=2500, test=1000).load(), {}
    for part in (photos.train, photos.val, photos.aux, photos.test):
        for image, group in zip(part.x.numpy(), part.groups.tolist(), strict=True):
            regions.setdefault(image.tobytes(), set()).add(group)
    assert len(regions) > 5000
    assert all(len(groups) == 1 for groups in regions.values())


def test_photos_floors_resemble_cifar10(photos):
    """Mean image .0612 and class mean .0568 on CIFAR-10; here classes tell more."""
    mean = photos.train.x.mean(0)
    floor = float((photos.test.x - mean).square().mean())
    by_class = torch.stack([photos.train.x[photos.train.y == c].mean(0) for c in range(10)])
    assert 0.05 < floor < 0.08
    assert 0.03 < float((photos.test.x - by_class[photos.test.y]).square().mean()) < floor


def test_photos_must_balance():
    with pytest.raises(DatasetError, match="multiples of ten"):
        Photos(train=105).load()


def test_stratified_parts_cover_everything_once():
    y = torch.tensor([0] * 10 + [1] * 20)
    parts = stratified(y, {"a": 0.5, "b": 0.2, "c": 0.3}, seed=0)
    assert sorted(torch.cat(list(parts.values())).tolist()) == list(range(30))
    assert [y[index].bincount().tolist() for index in parts.values()] == [[5, 10], [2, 4], [3, 6]]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.full((2, 3, 4, 4), 1.5), torch.tensor([0, 1]), "outside"),
        (torch.rand(2, 3, 4, 4), torch.tensor([0, 7]), "label outside -1..1"),
        (torch.rand(0, 3, 4, 4), torch.tensor([], dtype=torch.long), "empty"),
        (torch.rand(2, 2, 4, 4), torch.tensor([0, 1]), "C 1 or 3"),
        (torch.rand(2, 3, 4, 4), torch.tensor([0.0, 1.0]), ": int64"),
        (torch.rand(2, 3, 4, 4), torch.tensor([0, 1, 0]), ": int64"),
    ],
)
def test_bad_parts_are_refused(x, y, message):
    good = Part(torch.rand(2, 3, 4, 4), torch.tensor([0, 1]))
    parts = {"train": good, "val": good, "aux": good, "test": Part(x, y)}
    with pytest.raises(DatasetError, match=message):
        Split.build(parts, 2)


def test_images_that_train_and_attack_are_counted():
    x, y = torch.rand(9, 3, 4, 4), torch.arange(9) % 2
    other = Part(torch.rand(4, 3, 4, 4), torch.tensor([0, 1, 0, 1]))
    aux = Part(torch.cat([x[[8, 2, 2]], other.x]), torch.tensor([0, 1, 0, 1, 0, 1, 0]))
    parts = {"train": Part(x, y), "val": other, "aux": aux, "test": other}
    assert Split.build(parts, 2).overlap == 3
    assert Split.build(parts | {"aux": other}, 2).overlap == 0


@pytest.mark.slow
def test_the_real_cifar10(data_root):
    """Labels of the first test images: cat, ship, ship, airplane, frog; the floor of the mean
    image as NumPy has it from all 50,000 training images, in float64."""
    split = Cifar10().load(data_root)
    assert split.test.y[:5].tolist() == [3, 8, 8, 0, 6]
    assert [len(part.y) for part in (split.train, split.aux)] == [35_000, 12_500]
    floor = (split.test.x - split.train.x.mean(0)).square().mean()
    assert float(floor) == pytest.approx(0.061785, abs=2e-5)


@pytest.mark.slow
def test_the_real_tiny_imagenet(data_root):
    split = TinyImageNet().load(data_root)
    assert (split.classes, len(split.test.y), split.shape) == (10, 500, (3, 64, 64))
    assert split.test.y.bincount().tolist() == [50] * 10


def test_real_faces(data_root):
    """The AT&T faces: forty people, ten portraits each."""
    split = FaceScrub(folder="orl_faces").load(data_root)
    assert (split.classes, split.shape) == (40, (3, 48, 48))
    assert [len(part.y) for part in (split.train, split.val, split.aux, split.test)] == [
        200,
        40,
        80,
        80,
    ]


def test_a_foreign_attacker_has_images_of_all_classes(sets):
    tiny = TinyImageNet().arrays(sets)
    known = {
        image.numpy().tobytes(): int(y)
        for image, y in zip(halved(tiny["x"]), tiny["y"], strict=True)
    }
    aux = (DATASETS["cifar10_foreign"](n=1000).load(sets).aux.x * 255).round().byte()
    found = torch.tensor([known[image.numpy().tobytes()] for image in aux])
    counts = found.bincount(minlength=4)
    assert counts.min() > 0.7 * len(aux) / 4


@pytest.mark.parametrize(
    "name",
    ["cifar10", "cifar100", "cifar10_animals", "cifar10_foreign", "fashion_mnist", "tiny_imagenet"],
)
def test_the_seed_of_a_stored_set_deals_its_images(sets, name):
    first, again, other = (DATASETS[name](seed=seed).load(sets) for seed in (0, 0, 1))
    assert first.hash == again.hash != other.hash
    assert torch.equal(first.test.x, other.test.x)
