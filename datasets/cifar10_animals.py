"""CIFAR-10 for a task that needs little of an image: is it an animal?"""

import torch

from smashbench.datasets.base import Part
from smashbench.datasets.cifar10 import Cifar10
from smashbench.datasets.stored import Arrays

ANIMALS = (2, 3, 4, 5, 6, 7)
"""Bird, cat, deer, dog, frog and horse; the four others are vehicles."""


class Cifar10Animals(Cifar10):
    """The images and parts of CIFAR-10, with two classes: vehicle (0) and animal (1).

    Which of the ten it is has nothing to do with the task, and is an attribute of every image: what
    releases tell of it beyond the prediction is leakage ("overlearning", Song and Shmatikov,
    ICLR 2020).
    """

    name = "cifar10_animals"

    def deal(self, arrays: Arrays) -> tuple[dict[str, Part], int]:
        parts, _ = super().deal(arrays)
        animals = torch.tensor(ANIMALS)
        return {
            name: part._replace(y=torch.isin(part.y, animals).long(), attributes=part.y[:, None])
            for name, part in parts.items()
        }, 2
