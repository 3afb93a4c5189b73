"""CIFAR-10 (Krizhevsky, 2009) through torchvision, checked against its md5 sums."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from smashbench.datasets.base import DatasetError, Part
from smashbench.datasets.download import download, unpack
from smashbench.datasets.official import Official
from smashbench.datasets.stored import Arrays

AUX, VAL = 9_000, 1_000
"""Of the published split: test images that are the attacker's, and training images of ``val``."""


class Cifar10(Official):
    """CIFAR-10, 50,000 training and 10,000 test images, 32x32.

    The split ``xia2025`` is that of Xia et al. (CVPR 2025): the victim trains on all 50,000
    training images, the first 9,000 test images are the attacker's and the last 1,000 are
    scored. No image is left to watch the training with, so ``val`` is the last 1,000 images of
    ``train``; nothing is chosen by it.

    Args:
        split: ``disjoint``, or ``xia2025``, which uses all images, in their published
            order whatever ``seed`` is.
        options: those of ``Official``.
    """

    name = "cifar10"
    torchvision: ClassVar[str] = "CIFAR10"
    """Name of the class there, and of a folder that is looked in."""

    def __init__(
        self, *, split: Literal["disjoint", "xia2025"] = "disjoint", **options: Any
    ) -> None:
        super().__init__(**options)
        self.split = split

    @property
    def source(self) -> Any:
        """The class of torchvision, which knows names and md5 sums."""
        import torchvision.datasets

        return getattr(torchvision.datasets, self.torchvision)

    @property
    def sums(self) -> Mapping[str, str]:
        meta = self.source.meta
        return dict([*self.source.train_list, *self.source.test_list]) | {
            meta["filename"]: meta["md5"]
        }

    def places(self, root: Path) -> list[Path]:
        parents = [root / self.torchvision, root / self.name, root]
        return [parent / self.source.base_folder for parent in parents]

    def read(self, folder: Path) -> Arrays:
        arrays = {}
        for suffix, train in (("", True), ("_test", False)):
            part = self.source(folder.parent, train=train)
            arrays[f"x{suffix}"] = torch.from_numpy(part.data).permute(0, 3, 1, 2).contiguous()
            arrays[f"y{suffix}"] = torch.tensor(part.targets)
        return arrays

    def deal(self, arrays: Arrays) -> tuple[dict[str, Part], int]:
        if self.split == "disjoint":
            return super().deal(arrays)
        if self.n or self.n_test:
            raise DatasetError(f"{self.name}: the split xia2025 takes all images, no n or n_test")
        x, y, x_test, y_test = (arrays[name] for name in ("x", "y", "x_test", "y_test"))
        parts = {
            "train": Part(x, y),
            "val": Part(x[-VAL:], y[-VAL:]),
            "aux": Part(x_test[:AUX], y_test[:AUX]),
            "test": Part(x_test[AUX:], y_test[AUX:]),
        }
        return parts, self.classes

    def fetch(self, root: Path) -> None:
        archive = root / self.torchvision / self.source.filename
        download(self.source.url, archive, self.source.tgz_md5)
        unpack(archive, self.source.base_folder)
