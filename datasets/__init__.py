"""The data sets: one per file, listed in ``DATASETS``."""

from datasets.base import Dataset, DatasetError, Part, Prior, Split
from datasets.cifar10 import Cifar10
from datasets.gaussian import Gaussian
from datasets.photos import Photos

DATASETS: dict[str, type[Dataset]] = {
    "photos": Photos,
    "cifar10": Cifar10,
    "gaussian": Gaussian,
}

__all__ = ["DATASETS", "Dataset", "DatasetError", "Part", "Prior", "Split"]
