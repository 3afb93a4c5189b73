"""CIFAR-10 (Krizhevsky, 2009) through torchvision, checked against its md5 sums."""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge

from datasets.base import Dataset, DatasetError, Part, Split
from datasets.split import stratified

SHARES = {"train": 0.70, "val": 0.05, "aux": 0.25}


class Cifar10(Dataset):
    """CIFAR-10: the official training images as train, val and aux (70, 5, 25 %), the test set.

    Args:
        n: use the first ``n`` of the 50,000 training images.
        n_test: use the first ``n_test`` of the 10,000 test images.
        seed: seed of the stratified split.
    """

    needs_data = True

    def __init__(
        self,
        *,
        n: Annotated[int, Ge(200)] = 50_000,
        n_test: Annotated[int, Ge(10)] = 10_000,
        seed: Annotated[int, Ge(0)] = 0,
    ) -> None:
        self.n, self.n_test, self.seed = n, n_test, seed

    def load(self, root: Path | None) -> Split:
        from torchvision.datasets import CIFAR10

        folder = _checked(root)
        whole = {train: CIFAR10(folder, train=train, download=False) for train in (True, False)}
        x, y = (_first(whole[True], self.n), torch.tensor(whole[True].targets[: self.n]))
        parts = {
            name: Part(x[index], y[index])
            for name, index in stratified(y, SHARES, seed=self.seed).items()
        }
        test = torch.tensor(whole[False].targets[: self.n_test])
        return Split.build(parts | {"test": Part(_first(whole[False], self.n_test), test)}, 10)

    def fetch(self, root: Path) -> None:
        from torchvision.datasets import CIFAR10

        CIFAR10(root / "CIFAR10", download=True)


def _checked(root: Path | None) -> Path:
    """The folder that holds ``cifar-10-batches-py``, every file's md5 verified."""
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import check_integrity

    how = "give its parent folder with --data DIR or SMASHBENCH_DATA, or download it with:\n"
    how += "  python -m bench fetch cifar10 --data DIR"
    if root is None:
        raise DatasetError(f"cifar10 needs a data folder: {how}")
    looked = [root / "CIFAR10", root / "cifar10", root]
    for folder in looked:
        if (batches := folder / CIFAR10.base_folder).is_dir():
            break
    else:
        places = ", ".join(str(folder / CIFAR10.base_folder) for folder in looked)
        raise DatasetError(f"cifar10 was not found (looked for {places}); {how}")
    for filename, md5 in [*CIFAR10.train_list, *CIFAR10.test_list]:
        if not (batches / filename).is_file():
            raise DatasetError(f"cifar10: {batches / filename} is missing; {how}")
        if not check_integrity(str(batches / filename), md5):
            raise DatasetError(
                f"cifar10: {batches / filename} is truncated or altered (md5 differs); {how}"
            )
    return folder


def _first(data: object, n: int) -> torch.Tensor:
    """The first ``n`` images, (n, 3, 32, 32) float32 in [0, 1]."""
    images: np.ndarray = data.data  # type: ignore[attr-defined]
    if n > len(images):
        raise DatasetError(f"cifar10 has {len(images)} such images, {n} were asked for")
    return torch.from_numpy(images[:n]).permute(0, 3, 1, 2).contiguous().float() / 255
