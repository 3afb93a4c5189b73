"""CIFAR-100 (Krizhevsky, 2009) through torchvision, checked against its md5 sums."""

from smashbench.datasets.cifar10 import Cifar10


class Cifar100(Cifar10):
    """CIFAR-100, its 100 fine classes; parts and options are those of CIFAR-10."""

    name = "cifar100"
    torchvision = "CIFAR100"
    classes = 100
