"""The data sets: one per file, listed in ``DATASETS``."""

from datasets.base import Dataset, DatasetError, Part, Split
from datasets.cifar10 import Cifar10
from datasets.photos import Photos

DATASETS: dict[str, type[Dataset]] = {
    "photos": Photos,
    "cifar10": Cifar10,
}

__all__ = ["DATASETS", "Dataset", "DatasetError", "Part", "Split"]
