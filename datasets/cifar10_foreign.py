"""CIFAR-10 for an attacker who has no images like the victim's."""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from smashbench.datasets.base import DatasetError, Part, Split
from smashbench.datasets.cache import mapped
from smashbench.datasets.cifar10 import Cifar10
from smashbench.datasets.tiny_imagenet import TinyImageNet


class Cifar10Foreign(Cifar10):
    """The images and parts of CIFAR-10, but for ``aux``: as many training images of Tiny-ImageNet,
    of which means of 2x2 pixels make 32x32.

    What an attacker rebuilds with them, beside what one does who has images of CIFAR-10
    (``cifar10`` with the same options: the same victims and test images), says how much it matters
    to know the distribution. Their labels mean nothing; no attack is told any.

    Raises:
        DatasetError: Tiny-ImageNet is missing, or has fewer images than ``aux`` is to have.
    """

    name = "cifar10_foreign"

    def load(self, root: Path | None) -> Split:
        parts, classes = self.deal(self.arrays(root))
        images, wanted = TinyImageNet().arrays(root)["x"], len(parts["aux"].y)
        if wanted > len(images):
            raise DatasetError(
                f"{self.name}: Tiny-ImageNet has {len(images):,} images there, and the attacker of "
                f"cifar10 {wanted:,}; give fewer with n"
            )
        generator = torch.Generator().manual_seed(self.seed)
        chosen = images[torch.randperm(len(images), generator=generator)[:wanted]]
        parts["aux"] = Part(halved(chosen), torch.arange(wanted) % classes)
        return Split.build(parts, classes, scale=mapped)

    def fetch(self, root: Path) -> None:
        for dataset in (Cifar10(), TinyImageNet()):
            try:
                dataset.arrays(root)
            except DatasetError:
                dataset.fetch(root)


def halved(x: Tensor) -> Tensor:
    """Images (N, C, H, W), uint8, at half their resolution: means of 2x2 pixels, rounded."""
    return avg_pool2d(x.float(), 2).round().to(torch.uint8)
