"""Any images, one folder per class."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Ge, Le, MultipleOf
from torch import Tensor

from smashbench.datasets.base import DatasetError, Part, PerClass, Seed
from smashbench.datasets.folders import by_folder, read_images, version
from smashbench.datasets.stored import Arrays, Stored, dealt

SHARES = {"train": 0.50, "val": 0.10, "aux": 0.20, "test": 0.20}


class ImageFolder(Stored):
    """Images of your own: every folder that holds images is a class.

    Folders may be nested. Images become RGB squares, see ``read_images``. Each class is dealt to
    train, val, aux and test (50, 10, 20, 20 %).

    Args:
        folder: where, below the data folder, or an absolute path.
        size: pixels of a side.
        per_class: use the first so many images of every class; 0 for all.
        seed: seed of the stratified split.
    """

    name = "image_folder"
    how = "say where it is with --set dataset.folder=PATH"

    def __init__(
        self,
        *,
        folder: str = "images",
        size: Annotated[int, Ge(32), Le(1024), MultipleOf(16)] = 64,
        per_class: PerClass = 0,
        seed: Seed = 0,
    ) -> None:
        self.folder, self.size, self.per_class, self.seed = folder, size, per_class, seed

    @property
    def decoding(self) -> Mapping[str, Any]:
        return {"size": self.size, "version": version()}

    def find(self, root: Path | None) -> Path:
        return super().find(Path("/") if Path(self.folder).is_absolute() else root)

    def places(self, root: Path) -> list[Path]:
        return [root / self.folder]

    def files(self, folder: Path) -> Iterable[Path]:
        for images in by_folder(folder).values():
            yield from images

    def decode(self, folder: Path) -> Arrays:
        classes = list(by_folder(folder).values())
        if len(classes) < 2:
            raise DatasetError(f"{folder} holds images of one class; a folder for each, please")
        counts = torch.tensor([len(images) for images in classes])
        x = read_images([path for images in classes for path in images], self.size, self.name)
        return {"x": x, "y": torch.arange(len(classes)).repeat_interleave(counts)}

    def deal(self, arrays: Arrays) -> tuple[dict[str, Part], int]:
        x, y = arrays["x"], arrays["y"]
        kept = per_class(self.name, y, self.per_class)
        parts = dealt(x[kept], y[kept], SHARES, self.seed)
        counts = torch.stack(
            [part.y.bincount(minlength=int(y.max()) + 1) for part in parts.values()]
        )
        if not bool((counts > 0).all()):
            least = int(counts.sum(0).min())
            raise DatasetError(
                f"{self.name}: a class of {least} images is too small: each of the four parts "
                "needs one of every class"
            )
        return parts, int(y.max()) + 1

    def fetch(self, root: Path) -> None:
        raise DatasetError(
            f"{self.name} is not offered for download: put images in {root / self.folder}, "
            "a folder for each class"
        )


def per_class(name: str, y: Tensor, n: int) -> Tensor:
    """Indices of the first ``n`` images of every class, of labels y (N,); all of them for 0.

    Raises:
        DatasetError: a class has not so many.
    """
    if not n:
        return torch.arange(len(y))
    kept = [(y == label).nonzero()[:n, 0] for label in y.unique()]
    least = min(map(len, kept))
    if least < n:
        raise DatasetError(f"{name} has a class of {least} images, {n} of each were asked for")
    return torch.cat(kept).sort().values
