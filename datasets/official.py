"""Sets whose publisher gives checksums and a test set."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from smashbench.datasets.base import DatasetError, Part, PerClass, Seed
from smashbench.datasets.download import md5_of
from smashbench.datasets.stored import Arrays, Stored, dealt

SHARES = {"train": 0.70, "val": 0.05, "aux": 0.25}


class Official(Stored):
    """The official training images, in their shuffled order, as train, val and aux (70, 5, 25 %),
    and the official test set.

    Args:
        n: use the first ``n`` training images; 0 for all.
        n_test: use the first ``n_test`` test images; 0 for all.
        seed: seed of the stratified split.
    """

    classes: ClassVar[int] = 10

    def __init__(
        self,
        *,
        n: PerClass = 0,
        n_test: PerClass = 0,
        seed: Seed = 0,
    ) -> None:
        self.n, self.n_test, self.seed = n, n_test, seed

    @property
    @abstractmethod
    def sums(self) -> Mapping[str, str]:
        """File names and md5 sums."""

    @abstractmethod
    def read(self, folder: Path) -> Arrays:
        """Reads the files, which are what they should be."""

    def files(self, folder: Path) -> Iterable[Path]:
        for name in self.sums:
            if not (folder / name).is_file():
                raise self.missing(folder / name)
            yield folder / name

    def decode(self, folder: Path) -> Arrays:
        for name, md5 in self.sums.items():
            if md5_of(folder / name) != md5:
                raise DatasetError(
                    f"{self.name}: {folder / name} is truncated or altered (md5 differs); "
                    f"{self.how.format(name=self.name)}"
                )
        return self.read(folder)

    def deal(self, arrays: Arrays) -> tuple[dict[str, Part], int]:
        first = self._first(arrays, "", self.n)
        parts = dealt(first.x, first.y, SHARES, self.seed)
        return parts | {"test": self._first(arrays, "_test", self.n_test)}, self.classes

    def _first(self, arrays: Arrays, suffix: str, n: int) -> Part:
        x, y = arrays[f"x{suffix}"], arrays[f"y{suffix}"]
        if n > len(x):
            raise DatasetError(f"{self.name} has {len(x)} such images, {n} were asked for")
        return Part(x[:n], y[:n]) if n else Part(x, y)
