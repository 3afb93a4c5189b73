"""Data sets in files below a data folder: found, checked, decoded once."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from smashbench.datasets.base import Dataset, DatasetError, Part, Split
from smashbench.datasets.cache import decoded, mapped
from smashbench.datasets.split import stratified

Arrays = dict[str, Tensor]
"""Decoded images: ``x`` (N, C, H, W) uint8 with labels ``y`` (N,) int64, and where the set has a
test set of its own, ``x_test`` and ``y_test``."""


def _are_images(arrays: Arrays) -> bool:
    """Whether these are arrays as ``decode`` makes them."""
    pairs = {"x": "y"} | ({"x_test": "y_test"} if "x_test" in arrays else {})
    return arrays.keys() >= {*pairs, *pairs.values()} and all(
        arrays[x].dtype == torch.uint8
        and arrays[x].ndim == 4
        and arrays[y].dtype == torch.int64
        and arrays[y].shape == arrays[x].shape[:1]
        for x, y in pairs.items()
    )


def dealt(x: Tensor, y: Tensor, shares: Mapping[str, float], seed: int) -> dict[str, Part]:
    """Images and labels dealt to named parts, in each class by the same shares."""
    parts = stratified(y, shares, seed=seed)
    return {name: Part(x[index], y[index]) for name, index in parts.items()}


class Stored(Dataset):
    """A set that is read from files. A subclass says where they are and how to read them."""

    needs_data = True

    name: ClassVar[str]
    """In ``DATASETS``."""
    how: ClassVar[str] = "download it with:\n  smashbench fetch {name} --data DIR"
    """How to get it."""

    @abstractmethod
    def places(self, root: Path) -> list[Path]:
        """Folders that may hold the set, the first that exists is taken."""

    @abstractmethod
    def files(self, folder: Path) -> Iterable[Path]:
        """The files of the set.

        Raises:
            DatasetError: one is missing.
        """

    @abstractmethod
    def decode(self, folder: Path) -> Arrays:
        """Reads and checks them.

        Raises:
            DatasetError: one is truncated, altered or unreadable.
        """

    @abstractmethod
    def deal(self, arrays: Arrays) -> tuple[dict[str, Part], int]:
        """The four parts, images as uint8, and the number of classes."""

    @property
    def decoding(self) -> Mapping[str, Any]:
        """The options that change what ``decode`` returns."""
        return {}

    def load(self, root: Path | None) -> Split:
        parts, classes = self.deal(self.arrays(root))
        return Split.build(parts, classes, scale=mapped)

    def arrays(self, root: Path | None) -> Arrays:
        """All images and labels, before they are dealt."""
        folder = self.find(root)
        files, decode = self.files(folder), lambda: self.decode(folder)
        return decoded(self.name, self.decoding, files, decode, _are_images)

    def find(self, root: Path | None) -> Path:
        """The folder that holds the set.

        Raises:
            DatasetError: there is none; the message says where it was looked for.
        """
        how = "give its parent folder with --data DIR or SMASHBENCH_DATA, or "
        how += self.how.format(name=self.name)
        if root is None:
            raise DatasetError(f"{self.name} needs a data folder: {how}")
        looked = self.places(root)
        for folder in looked:
            if folder.is_dir():
                return folder
        places = ", ".join(map(str, looked))
        raise DatasetError(f"{self.name} was not found (looked for {places}); {how}")

    def missing(self, path: Path) -> DatasetError:
        how = self.how.format(name=self.name)
        return DatasetError(f"{self.name}: {path} is missing; put it back, or {how}")
