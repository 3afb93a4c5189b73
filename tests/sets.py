"""Small copies of every stored data set, in its publisher's layout, made of random pixels."""

import gzip
import hashlib
import pickle
from pathlib import Path

import numpy as np
import torchvision.datasets
from PIL import Image

CIFAR = Path("CIFAR10/cifar-10-batches-py")
TINY = Path("tiny-imagenet-200")
WORDS = ("n02", "n01", "n03", "n04")


def write_all(root: Path, patch) -> None:
    """Below ``root``; ``patch`` replaces attributes for as long as the sums are ours."""
    cifar(root, patch, "CIFAR10", classes=10)
    cifar(root, patch, "CIFAR100", classes=100)
    fashion_mnist(root, patch)
    tiny_imagenet(root)
    faces(root / "facescrub")
    faces(root / "images")
    faces(root / "orl_faces", people=14, each=10)


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def cifar(root: Path, patch, name: str, classes: int) -> None:
    source = getattr(torchvision.datasets, name)
    folder = root / name / source.base_folder
    folder.mkdir(parents=True)

    def write(filename: str, content: dict) -> list[str]:
        (folder / filename).write_bytes(pickle.dumps(content))
        return [filename, hashlib.md5((folder / filename).read_bytes()).hexdigest()]

    key = "labels" if classes == 10 else "fine_labels"
    lists = {"train_list": source.train_list, "test_list": source.test_list}
    for attribute, names in lists.items():
        n = 2000 // len(names) if attribute == "train_list" else 500
        found = []
        for number, (filename, _) in enumerate(names):
            data = pixels(n, 3072, seed=number + 10 * (attribute == "test_list"))
            found.append(write(filename, {"data": data, key: [i % classes for i in range(n)]}))
        patch.setattr(source, attribute, found)
    meta = source.meta
    words = [f"class {number}" for number in range(classes)]
    filename, md5 = write(meta["filename"], {meta["key"]: words})
    patch.setattr(source, "meta", meta | {"filename": filename, "md5": md5})


def fashion_mnist(root: Path, patch) -> None:
    folder = root / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    found = []
    for name, _ in torchvision.datasets.FashionMNIST.resources:
        n = 2000 if name.startswith("train") else 500
        body = pixels(n, 28, 28, seed=n) if "images" in name else np.arange(n, dtype=np.uint8) % 10
        header = bytes(16 if "images" in name else 8)
        (folder / name).write_bytes(gzip.compress(header + body.tobytes(), 1, mtime=0))
        found.append((name, hashlib.md5((folder / name).read_bytes()).hexdigest()))
    patch.setattr(torchvision.datasets.FashionMNIST, "resources", found)


def tiny_imagenet(root: Path) -> None:
    """With a flat ``val`` folder, and a grey JPEG in every class."""
    folder = root / "tiny-imagenet-200"
    (folder / "val" / "images").mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(WORDS) + "\n")
    lines = []
    for number, word in enumerate(WORDS):
        place = folder / "train" / word / "images"
        place.mkdir(parents=True)
        for image in range(125):
            shape = (64, 64) if image == 7 else (64, 64, 3)
            content = Image.fromarray(pixels(*shape, seed=1000 * number + image))
            content.save(place / f"{word}_{image}.JPEG", quality=95)
        for image in range(10):
            name = f"val_{10 * image + number}.JPEG"
            shape = (64, 64, 3)
            content = Image.fromarray(pixels(*shape, seed=9000 + 10 * image + number))
            content.save(folder / "val" / "images" / name, quality=95)
            lines.append(f"{name}\t{word}\t0\t0\t63\t63")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(sorted(lines)) + "\n")


def faces(folder: Path, people: int = 5, each: int = 20) -> None:
    """Grey portraits, wider and higher than what they are resized to."""
    for person in range(people):
        place = folder / f"person_{person}"
        place.mkdir(parents=True)
        for image in range(each):
            content = Image.fromarray(pixels(112, 92, seed=100 * person + image))
            content.save(place / f"{image}.pgm")


def cached(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").glob("*.safetensors"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
