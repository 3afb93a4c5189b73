"""Data sets in files: what is read, what is refused, what is kept."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smashbench.datasets import DATASETS, DatasetError
from smashbench.datasets import cache as kept
from smashbench.datasets.cifar10 import Cifar10
from smashbench.datasets.facescrub import FaceScrub
from smashbench.datasets.folders import by_folder, read_images
from smashbench.datasets.image_folder import ImageFolder
from smashbench.datasets.tiny_imagenet import TinyImageNet
from tests.sets import TINY, WORDS, cached, flip, pixels

ONE_SET = [name for name, c in DATASETS.items() if c.needs_data and name != "cifar10_foreign"]
"""Those that are read from one folder."""


def test_cifar10_uses_the_first_images_and_the_official_test_set(sets):
    split = Cifar10(n=1000, n_test=200).load(sets)
    sizes = [len(part.y) for part in (split.train, split.val, split.aux, split.test)]
    assert sizes == [700, 50, 250, 200]
    first = torch.from_numpy(pixels(400, 3072, seed=0)[0]).view(3, 32, 32) / 255  # of batch 1
    found = [part.x for part in (split.train, split.val, split.aux)]
    assert any(bool((x == first).flatten(1).all(1).any()) for x in found)
    with pytest.raises(DatasetError, match="2000 such images, 60000"):
        Cifar10(n=60_000).load(sets)


def test_a_foreign_attacker_has_images_of_another_set_and_all_else_is_the_same(sets):
    ours, theirs = (DATASETS[name](n=1000) for name in ("cifar10", "cifar10_foreign"))
    known, foreign = ours.load(sets), theirs.load(sets)
    for part in ("train", "val", "test"):
        assert torch.equal(getattr(known, part).x, getattr(foreign, part).x)
    assert known.hash != foreign.hash
    assert foreign.aux.x.shape == known.aux.x.shape
    tiny = TinyImageNet().load(sets)
    x = torch.cat([part.x for part in (tiny.train, tiny.val, tiny.aux)]) * 255
    means = x.view(len(x), 3, 32, 2, 32, 2).mean((3, 5)).round().flatten(1)
    made = (foreign.aux.x * 255).round().flatten(1)
    away = torch.cdist(made, means)  # every one is of theirs, and none is there twice
    assert away.min(1).values.max() < 3072**0.5  # a level, where a mean lies between two
    assert len(away.argmin(1).unique()) == len(made)


def test_both_sets_of_a_foreign_attacker_are_fetched_where_they_are_missing(mine, monkeypatch):
    fetched = []
    for component in (Cifar10, TinyImageNet):
        monkeypatch.setattr(component, "fetch", lambda self, root: fetched.append(self.name))
    foreign = DATASETS["cifar10_foreign"]
    foreign().fetch(mine)
    assert fetched == []
    shutil.rmtree(mine / TINY)
    foreign().fetch(mine)
    assert fetched == ["tiny_imagenet"]


def test_the_published_split_is_exactly_theirs():
    x = torch.arange(60_000).view(-1, 1, 1, 1)
    y = torch.arange(60_000) // 7 % 10
    arrays = {"x": x[:50_000], "y": y[:50_000], "x_test": x[50_000:], "y_test": y[50_000:]}
    parts, classes = Cifar10(split="xia2025").deal(arrays)
    assert classes == 10
    assert {name: len(part.y) for name, part in parts.items()} == {
        "train": 50_000,
        "val": 1_000,
        "aux": 9_000,
        "test": 1_000,
    }
    first = {"train": 0, "val": 49_000, "aux": 50_000, "test": 59_000}
    for name, part in parts.items():
        assert torch.equal(part.x.flatten(), first[name] + torch.arange(len(part.x)))
        assert torch.equal(part.y, y[part.x.flatten()])
    with pytest.raises(DatasetError, match="no n or n_test"):
        Cifar10(split="xia2025", n=1000).deal(arrays)


def test_fashion_mnist_has_a_black_border(sets):
    split = DATASETS["fashion_mnist"]().load(sets)
    assert split.shape == (1, 32, 32)
    x = split.test.x
    inner = torch.from_numpy(pixels(500, 28, 28, seed=500)).float() / 255
    assert torch.equal(x[:, 0, 2:-2, 2:-2], inner)
    assert float(x.sum()) == pytest.approx(float(inner.sum()), rel=1e-5)
    assert split.test.y[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


def test_tiny_imagenet_reads_grey_images_and_the_flat_validation_folder(sets):
    split = TinyImageNet().load(sets)
    assert split.shape == (3, 64, 64)
    assert (split.classes, len(split.test.y)) == (4, 40)
    train = torch.cat([part.x for part in (split.train, split.val, split.aux)])
    assert len(train) == 500
    grey = (train[:, 0] == train[:, 1]).flatten(1).all(1)
    assert int(grey.sum()) == 4
    # val_13 is image 1 of the fourth class of the file, whose label is its place in order
    for name, label in (("val_0.JPEG", 1), ("val_1.JPEG", 0), ("val_13.JPEG", 3)):
        with Image.open(sets / TINY / "val" / "images" / name) as file:
            wanted = torch.from_numpy(np.array(file)).permute(2, 0, 1) / 255
        (place,) = (split.test.x == wanted).flatten(1).all(1).nonzero()[0].tolist()
        assert split.test.y[place] == label


def test_chosen_classes_of_tiny_imagenet_are_those_of_the_whole(sets):
    whole, names = TinyImageNet().load(sets), sorted(WORDS)
    part = TinyImageNet(classes=(names[3], names[1])).load(sets)
    assert (part.classes, len(part.test.y)) == (2, 20)
    for label, old in enumerate((1, 3)):
        assert torch.equal(part.test.x[part.test.y == label], whole.test.x[whole.test.y == old])
    assert sum(len(each.y) for each in (part.train, part.val, part.aux)) == 250
    with pytest.raises(DatasetError, match=f"no class 'n99'; choose .* such as '{names[0]}'"):
        TinyImageNet(classes=("n99", names[0])).load(sets)
    with pytest.raises(DatasetError, match="two classes or more"):
        TinyImageNet(classes=(names[0],)).load(sets)


def test_a_folder_per_class_at_any_depth(sets, tmp_path):
    for number in range(2):
        half = shutil.copytree(sets / "images", tmp_path / "deep" / f"half_{number}")
        for person in list(half.iterdir()):
            person.rename(half / f"{number}_{person.name}")
    split = ImageFolder(folder="deep", size=32).load(tmp_path)
    assert (split.classes, split.shape) == (10, (3, 32, 32))
    assert ImageFolder(folder=str(tmp_path / "deep"), size=32).load(None).hash
    counts = [part.y.bincount().tolist() for part in (split.train, split.val, split.test)]
    assert counts == [[10] * 10, [2] * 10, [4] * 10]


def test_images_are_scaled_to_their_short_side_and_cut_in_the_middle(tmp_path):
    wide = np.zeros((40, 80, 3), np.uint8)
    wide[:, 20:60] = (10, 200, 30)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    (image,) = read_images([tmp_path / "wide.png"], 20, "test")
    assert image.shape == (3, 20, 20)
    assert image[:, 10, 10].tolist() == [10, 200, 30]
    assert image[1].float().mean() > 190  # the black sides are gone
    same = pixels(20, 20, 3)
    Image.fromarray(same).save(tmp_path / "same.png")
    (image,) = read_images([tmp_path / "same.png"], 20, "test")
    assert torch.equal(image, torch.from_numpy(same).permute(2, 0, 1))


def test_images_of_every_kind(tmp_path):
    """Transparent, by palette, turned by their camera; 16 bits would come out white."""
    colour = np.zeros((20, 20, 4), np.uint8)
    colour[:10] = (250, 0, 0, 255)
    Image.fromarray(colour).save(tmp_path / "alpha.png")
    Image.fromarray(colour[..., :3]).quantize(4).save(tmp_path / "palette.png")
    turned = Image.Exif()
    turned[0x0112] = 3  # upside down
    Image.fromarray(colour[..., :3]).save(tmp_path / "exif.png", exif=turned)
    names = ["alpha.png", "palette.png", "exif.png"]
    alpha, palette, exif = read_images([tmp_path / name for name in names], 20, "test")
    assert alpha[0, :10].min() == palette[0, :10].min() == exif[0, 10:].min() == 250
    Image.fromarray(np.full((20, 20), 9, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(DatasetError, match=r"deep.png is not a readable image \(more than 8 bits"):
        read_images([tmp_path / "deep.png"], 20, "test")


def test_links_may_lead_in_circles(sets, tmp_path):
    (tmp_path / "images").symlink_to(sets / "images")
    assert len(by_folder(tmp_path / "images")) == 5
    own = Path(shutil.copytree(sets / "images", tmp_path / "own"))
    (own / "person_1" / "back").symlink_to(own)
    assert len(by_folder(own)) == 5


@pytest.mark.parametrize("name", ONE_SET)
def test_a_decoded_set_is_kept_and_read_back(name, mine, tmp_path, monkeypatch):
    component = DATASETS[name]()
    before = component.load(mine).hash
    assert len(cached(tmp_path)) == 1
    with monkeypatch.context() as patch:
        patch.setattr(type(component), "decode", lambda *_: pytest.fail("decoded again"))
        assert component.load(mine).hash == before
    flip(cached(tmp_path)[0])  # a damaged copy is no error: the files are there
    assert component.load(mine).hash == before
    assert component.load(mine).hash == before
    assert not list((tmp_path / "cache").glob(".*.part"))


def test_a_changed_file_is_decoded_anew(mine):
    before = FaceScrub().load(mine).hash
    Image.fromarray(pixels(112, 92, seed=77)).save(mine / "facescrub" / "person_1" / "3.pgm")
    assert FaceScrub().load(mine).hash != before


def test_without_a_writable_cache_it_works_all_the_same(mine, tmp_path, monkeypatch):
    before = FaceScrub().load(mine).hash
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SMASHBENCH_CACHE", str(tmp_path / "file" / "cache"))
    assert FaceScrub().load(mine).hash == before


def test_processes_share_images_through_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SMASHBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "AT_ONCE", 3)
    x = torch.arange(256, dtype=torch.uint8).repeat(3).view(8, 3, 8, 4)
    assert torch.equal(kept.mapped(x, "few"), x / 255)
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr(kept, "MAPPED", 0)
    first, second = kept.mapped(x, "many"), kept.mapped(x, "many")
    first[0] = 0.5  # a copy of the page, and neither the file's nor the others'
    (path,) = (tmp_path / "cache").glob("*.float32")
    for damage in (lambda: None, lambda: flip(path), lambda: path.write_bytes(b"")):
        assert torch.equal(second, x / 255)
        second = second.clone()  # a map of a file that is cut off must not be touched
        damage()
        assert torch.equal(kept.mapped(x, "many"), x / 255)
        assert path.read_bytes() == (x / 255).numpy().tobytes()
    monkeypatch.setenv("SMASHBENCH_CACHE", str(path / "cache"))
    assert torch.equal(kept.mapped(x, "many"), x / 255)


def test_the_cache_is_where_people_expect_it(monkeypatch):
    monkeypatch.delenv("SMASHBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert kept.folder() == Path("/x/smashbench")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert kept.folder() == Path.home() / ".cache" / "smashbench"


def test_a_label_out_of_range_is_refused(mine, monkeypatch):
    """Not from a file with the right sum; then the last check, which every set passes."""
    monkeypatch.setattr(Cifar10, "classes", 9)
    with pytest.raises(DatasetError, match=r"label outside 0\.\.8"):
        Cifar10().load(mine)


def test_too_few_images_and_classes_are_refused(mine):
    assert len(TinyImageNet(per_class=20).load(mine).aux.y) == 20
    DATASETS["cifar10_foreign"]().load(mine)
    (mine / TINY / "train" / "n01" / "images" / "n01_3.JPEG").unlink()
    with pytest.raises(DatasetError, match=r"has 499 images there.*cifar10 500; give fewer"):
        DATASETS["cifar10_foreign"]().load(mine)
    with pytest.raises(DatasetError, match="class of 124 images, 200 of each were asked for"):
        TinyImageNet(per_class=200).load(mine)
    for path in list((mine / "facescrub" / "person_1").iterdir())[1:]:
        path.unlink()
    with pytest.raises(DatasetError, match="class of 1 images is too small"):
        FaceScrub().load(mine)
    for person in range(1, 5):
        shutil.rmtree(mine / "images" / f"person_{person}")
    with pytest.raises(DatasetError, match="one class"):
        ImageFolder().load(mine)
