"""Fashion-MNIST (Xiao et al., 2017), checked against its md5 sums."""

import gzip
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from smashbench.datasets.download import download
from smashbench.datasets.official import Official
from smashbench.datasets.stored import Arrays

SIDE, BORDER = 28, 2


class FashionMnist(Official):
    """Fashion-MNIST, 60,000 training and 10,000 test images: grey, 28x28 in a black border to
    32x32.
    """

    name = "fashion_mnist"

    @property
    def sums(self) -> Mapping[str, str]:
        from torchvision.datasets import FashionMNIST

        return dict(FashionMNIST.resources)

    def places(self, root: Path) -> list[Path]:
        return [root / "FashionMNIST" / "raw", root / "fashion_mnist"]

    def read(self, folder: Path) -> Arrays:
        arrays = {}
        for suffix, part in (("", "train"), ("_test", "t10k")):
            x = _numbers(folder / f"{part}-images-idx3-ubyte.gz", header=16)
            arrays[f"x{suffix}"] = pad(x.view(-1, 1, SIDE, SIDE), [BORDER] * 4)
            labels = _numbers(folder / f"{part}-labels-idx1-ubyte.gz", header=8)
            arrays[f"y{suffix}"] = labels.long()
        return arrays

    def fetch(self, root: Path) -> None:
        from torchvision.datasets import FashionMNIST

        for name, md5 in self.sums.items():
            download(FashionMNIST.mirrors[0] + name, root / "FashionMNIST" / "raw" / name, md5)


def _numbers(path: Path, *, header: int) -> Tensor:
    """The bytes of an IDX file after its header."""
    return torch.frombuffer(
        bytearray(gzip.decompress(path.read_bytes())[header:]), dtype=torch.uint8
    )
