"""Folders of images and caches that once broke a data set."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from smashbench.datasets import DATASETS, DatasetError, cache
from smashbench.datasets.folders import read_images
from smashbench.datasets.split import stratified
from tests.sets import pixels


def images(folder: Path, counts: list[int]) -> Path:
    for label, n in enumerate(counts):
        place = folder / "images" / f"class {label}"
        place.mkdir(parents=True)
        for number in range(n):
            content = Image.fromarray(pixels(32, 32, 3, seed=100 * label + number))
            content.save(place / f"{number}.png")
    return folder


@pytest.mark.parametrize("n", [4, 5, 6, 7, 8, 9, 12])
def test_small_classes_have_an_image_in_every_part(tmp_path, n):
    split = DATASETS["image_folder"](size=32).load(images(tmp_path, [n, 20]))
    counts = [len(part.y) for part in (split.train, split.val, split.aux, split.test)]
    assert sum(counts) == n + 20
    for part in (split.train, split.val, split.aux, split.test):
        assert 0 in part.y.tolist()


def test_three_images_are_too_few_and_the_message_says_so(tmp_path):
    with pytest.raises(DatasetError, match=r"a class of 3 images is too small.*one of every class"):
        DATASETS["image_folder"](size=32).load(images(tmp_path, [3, 20]))


def test_large_classes_are_dealt_as_ever():
    """The cuts are the rounded shares wherever every part gets something."""
    shares = {"train": 0.5, "val": 0.1, "aux": 0.2, "test": 0.2}
    for n in range(8, 60):
        dealt = stratified(torch.zeros(n, dtype=torch.int64), shares, seed=0)
        cuts = np.round(np.cumsum(list(shares.values()))[:-1] * n).astype(int)
        assert [len(part) for part in dealt.values()] == np.diff([0, *cuts, n]).tolist()


def test_only_formats_that_pillow_reads_itself_are_read(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(pixels(32, 32, 3)).save(path, format="EPS")
    with pytest.raises(DatasetError, match=r"a\.png is not a readable image"):
        read_images([path], 32, "mine")


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    """What the cache keeps of a folder of images."""
    monkeypatch.setenv("SMASHBENCH_CACHE", str(tmp_path / "cache"))
    DATASETS["image_folder"](size=32).load(images(tmp_path, [8, 8]))
    (path,) = (tmp_path / "cache").glob("*.safetensors")
    return path


@pytest.mark.parametrize(
    "tensors",
    [
        {"z": torch.zeros(3)},
        {"x": torch.zeros(16, 3, 32, 32), "y": torch.zeros(16, dtype=torch.int64)},
        {"x": torch.zeros(16, 3, 32, 32, dtype=torch.uint8), "y": torch.zeros(9).long()},
    ],
)
def test_a_poisoned_cache_entry_is_decoded_anew(kept, tmp_path, tensors):
    """With the right SHA-256 of what was put there."""
    good = kept.read_bytes()
    save_file(tensors, kept, {"sha256": cache._hash(tensors)})
    split = DATASETS["image_folder"](size=32).load(tmp_path)
    assert float(split.train.x.std()) > 0.2
    assert kept.read_bytes() == good


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs two users")
def test_what_another_user_put_into_the_cache_is_not_read(kept, tmp_path):
    poison = {"x": torch.zeros(16, 3, 32, 32, dtype=torch.uint8), "y": torch.arange(16) % 2}
    save_file(poison, kept, {"sha256": cache._hash(poison)})
    os.chown(kept, 12345, 12345)
    assert float(DATASETS["image_folder"](size=32).load(tmp_path).train.x.std()) > 0.2
