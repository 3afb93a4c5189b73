"""Every way in which files of a data set are wrong is named, and nothing of it is kept."""

import shutil
from pathlib import Path

import pytest

from smashbench.datasets import DATASETS, DatasetError
from tests.sets import CIFAR, TINY, cached, flip


def damage_cifar(root: Path) -> Path:
    flip(root / CIFAR / "data_batch_3")
    return root / CIFAR / "data_batch_3"


def cut_cifar(root: Path) -> Path:
    path = root / CIFAR / "test_batch"
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def lose_cifar(root: Path) -> Path:
    (root / CIFAR / "batches.meta").unlink()
    return root / CIFAR / "batches.meta"


def damage_fashion(root: Path) -> Path:
    path = root / "FashionMNIST" / "raw" / "t10k-labels-idx1-ubyte.gz"
    flip(path)
    return path


def lose_class(root: Path) -> Path:
    shutil.rmtree(root / TINY / "train" / "n02")
    return root / TINY / "train" / "n02" / "images"


def empty_class(root: Path) -> Path:
    for path in (root / TINY / "train" / "n02" / "images").iterdir():
        path.unlink()
    return root / TINY / "train" / "n02" / "images"


def cut_jpeg(root: Path) -> Path:
    path = root / TINY / "train" / "n03" / "images" / "n03_5.JPEG"
    path.write_bytes(path.read_bytes()[:600])
    return path


def no_jpeg(root: Path) -> Path:
    path = root / TINY / "val" / "images" / "val_21.JPEG"
    path.write_text("not an image")
    return path


def lose_jpeg(root: Path) -> Path:
    (root / TINY / "val" / "images" / "val_21.JPEG").unlink()
    return root / TINY / "val" / "images" / "val_21.JPEG"


def wrong_label(root: Path) -> Path:
    path = root / TINY / "val" / "val_annotations.txt"
    path.write_text(path.read_text().replace("n04", "n99", 1))
    return path


def lose_list(root: Path) -> Path:
    (root / TINY / "wnids.txt").unlink()
    return root / TINY / "wnids.txt"


def empty_person(root: Path) -> Path:
    (root / "facescrub" / "nobody").mkdir()
    return root / "facescrub" / "nobody"


def stray_face(root: Path) -> Path:
    shutil.copy(root / "facescrub" / "person_2" / "4.pgm", root / "facescrub" / "preview.pgm")
    return root / "facescrub" / "preview.pgm"


def twin_person(root: Path) -> Path:
    (root / "facescrub" / "val").mkdir()
    shutil.copytree(root / "facescrub" / "person_1", root / "facescrub" / "val" / "person_1")
    return root / "facescrub"


def lost_face(root: Path) -> Path:
    (root / "facescrub" / "person_1" / "x.png").symlink_to("/nowhere")
    return root / "facescrub" / "person_1" / "x.png"


def twice_listed(root: Path) -> Path:
    path = root / TINY / "wnids.txt"
    path.write_text(path.read_text() + "n02\n")
    return path


def twice_labelled(root: Path) -> Path:
    path = root / TINY / "val" / "val_annotations.txt"
    path.write_text(path.read_text() + "\nval_0.JPEG\tn01\t0\t0\t63\t63\n")
    return path


def empty_face(root: Path) -> Path:
    (root / "facescrub" / "person_2" / "4.pgm").write_bytes(b"")
    return root / "facescrub" / "person_2" / "4.pgm"


@pytest.mark.parametrize(
    ("name", "break_it", "words"),
    [
        ("cifar10", damage_cifar, "truncated or altered"),
        ("cifar10", cut_cifar, "truncated or altered"),
        ("cifar10", lose_cifar, "is missing"),
        ("fashion_mnist", damage_fashion, "truncated or altered"),
        ("tiny_imagenet", lose_class, "is missing"),
        ("tiny_imagenet", empty_class, "holds no image"),
        ("tiny_imagenet", cut_jpeg, "not a readable image"),
        ("tiny_imagenet", no_jpeg, "not a readable image"),
        ("tiny_imagenet", lose_jpeg, "is missing"),
        ("tiny_imagenet", wrong_label, "'n99' is no class"),
        ("tiny_imagenet", lose_list, "is missing"),
        ("facescrub", empty_person, "holds no image"),
        ("facescrub", empty_face, "not a readable image"),
        ("facescrub", stray_face, "in no folder of a class"),
        ("facescrub", twin_person, "person_1 and val/person_1 have one name"),
        ("facescrub", lost_face, "cannot be read"),
        ("tiny_imagenet", twice_listed, "each once"),
        ("tiny_imagenet", twice_labelled, "val_0.JPEG is listed again"),
    ],
)
def test_what_is_broken_is_named_and_nothing_is_kept(name, break_it, words, mine, tmp_path):
    path = break_it(mine)
    with pytest.raises(DatasetError, match=words) as caught:
        DATASETS[name]().load(mine)
    assert str(path) in str(caught.value)
    assert not cached(tmp_path)
