"""Tiny-ImageNet (Stanford CS231n): 200 classes of ImageNet, 64x64."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from smashbench.datasets.base import DatasetError, Part, PerClass, Seed
from smashbench.datasets.download import download, unpack
from smashbench.datasets.folders import is_image, read_images, version
from smashbench.datasets.image_folder import per_class
from smashbench.datasets.official import SHARES
from smashbench.datasets.stored import Arrays, Stored, dealt

URL = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
MD5 = "90528d7ca1a48142e341f4ef8d21d0de"
SIDE = 64


class TinyImageNet(Stored):
    """Tiny-ImageNet: the training images as train, val and aux (70, 5, 25 %).

    The labels of its test images were never published, so ``test`` is its validation set, whose
    classes are listed in ``val_annotations.txt``. The classes are those of ``wnids.txt``.

    Args:
        classes: WordNet ids of the classes to use, such as ``n01443537``; empty for all.
        per_class: use the first so many training images of every class; 0 for all.
        seed: seed of the stratified split.
    """

    name = "tiny_imagenet"

    def __init__(
        self, *, classes: tuple[str, ...] = (), per_class: PerClass = 0, seed: Seed = 0
    ) -> None:
        self.classes, self.per_class, self.seed = tuple(classes), per_class, seed

    def places(self, root: Path) -> list[Path]:
        return [root / "tiny-imagenet-200", root / "tiny_imagenet"]

    def files(self, folder: Path) -> Iterable[Path]:
        for images in self._train(folder):
            yield from images
        yield from self._test(folder)
        yield from (folder / "wnids.txt", folder / "val" / "val_annotations.txt")

    def decode(self, folder: Path) -> Arrays:
        train, test = self._train(folder), self._test(folder)
        counts = torch.tensor([len(images) for images in train])
        return {
            "x": read_images([path for images in train for path in images], SIDE, self.name),
            "y": torch.arange(len(train)).repeat_interleave(counts),
            "x_test": read_images(list(test), SIDE, self.name),
            "y_test": torch.tensor(list(test.values())),
        }

    @property
    def decoding(self) -> Mapping[str, Any]:
        return {"version": version(), "classes": sorted(self.classes)}

    def deal(self, arrays: Arrays) -> tuple[dict[str, Part], int]:
        x, y = arrays["x"], arrays["y"]
        kept = per_class(self.name, y, self.per_class)
        parts = dealt(x[kept], y[kept], SHARES, self.seed)
        return parts | {"test": Part(arrays["x_test"], arrays["y_test"])}, int(y.max()) + 1

    def fetch(self, root: Path) -> None:
        download(URL, root / "tiny-imagenet-200.zip", MD5)
        unpack(root / "tiny-imagenet-200.zip", "tiny-imagenet-200")

    def _all(self, folder: Path) -> list[str]:
        """The classes of the folder."""
        names = self._text(folder / "wnids.txt").split()
        if len(names) < 2 or len(set(names)) < len(names):
            raise DatasetError(f"{folder / 'wnids.txt'} should list two or more classes, each once")
        return sorted(names)

    def _chosen(self, folder: Path) -> list[str]:
        """Those to use."""
        names, chosen = self._all(folder), sorted(set(self.classes))
        if lacking := [name for name in chosen if name not in names]:
            raise DatasetError(
                f"{folder / 'wnids.txt'} lists no class {lacking[0]!r}; choose classes from it, "
                f"such as {names[0]!r}"
            )
        if len(chosen) == 1:
            raise DatasetError(f"{self.name} needs two classes or more, not {chosen[0]!r} alone")
        return chosen or names

    def _train(self, folder: Path) -> list[list[Path]]:
        """The training images, class by class."""
        found = []
        for name in self._chosen(folder):
            place = folder / "train" / name / "images"
            if not place.is_dir():
                raise self.missing(place)
            found.append(sorted(path for path in place.iterdir() if is_image(path)))
            if not found[-1]:
                raise DatasetError(f"{self.name}: {place} holds no image")
        return found

    def _test(self, folder: Path) -> dict[Path, int]:
        """The validation images of the chosen classes and their labels."""
        known = set(self._all(folder))
        labels = {name: number for number, name in enumerate(self._chosen(folder))}
        file = folder / "val" / "val_annotations.txt"
        named: dict[Path, str] = {}
        for number, line in enumerate(self._text(file).splitlines(), 1):
            if not line.strip():
                continue
            image, name = (*line.split("\t"), "", "")[:2]
            if name not in known:
                raise DatasetError(f"{file}, line {number}: {name!r} is no class of wnids.txt")
            path = folder / "val" / "images" / image
            if path in named:
                raise DatasetError(f"{file}, line {number}: {image} is listed again")
            if not path.is_file():
                raise self.missing(path)
            named[path] = name
        found = {path: labels[name] for path, name in named.items() if name in labels}
        if not found:
            raise DatasetError(f"{file} lists no image")
        return found

    def _text(self, path: Path) -> str:
        try:
            return path.read_text()
        except FileNotFoundError:
            raise self.missing(path) from None
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(f"{path} cannot be read ({error})") from None
