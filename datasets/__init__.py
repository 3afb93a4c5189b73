"""The data sets: one per file, listed in ``DATASETS``."""

from datasets.base import Dataset, DatasetError, Part, Prior, Split
from datasets.cifar10 import Cifar10
from datasets.cifar100 import Cifar100
from datasets.facescrub import FaceScrub
from datasets.fashion_mnist import FashionMnist
from datasets.gaussian import Gaussian
from datasets.image_folder import ImageFolder
from datasets.photos import Photos
from datasets.tiny_imagenet import TinyImageNet

DATASETS: dict[str, type[Dataset]] = {
    "photos": Photos,
    "cifar10": Cifar10,
    "cifar100": Cifar100,
    "fashion_mnist": FashionMnist,
    "tiny_imagenet": TinyImageNet,
    "facescrub": FaceScrub,
    "image_folder": ImageFolder,
    "gaussian": Gaussian,
}

__all__ = ["DATASETS", "Dataset", "DatasetError", "Part", "Prior", "Split"]
