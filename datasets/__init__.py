"""The data sets: one per file, listed in ``DATASETS``."""

from smashbench.datasets.base import Dataset, DatasetError, Part, Prior, Split
from smashbench.datasets.cifar10 import Cifar10
from smashbench.datasets.cifar10_animals import Cifar10Animals
from smashbench.datasets.cifar10_foreign import Cifar10Foreign
from smashbench.datasets.cifar100 import Cifar100
from smashbench.datasets.faces import Faces
from smashbench.datasets.facescrub import FaceScrub
from smashbench.datasets.fashion_mnist import FashionMnist
from smashbench.datasets.gaussian import Gaussian
from smashbench.datasets.image_folder import ImageFolder
from smashbench.datasets.photos import Photos
from smashbench.datasets.tiny_imagenet import TinyImageNet

DATASETS: dict[str, type[Dataset]] = {
    "photos": Photos,
    "cifar10": Cifar10,
    "cifar10_animals": Cifar10Animals,
    "cifar10_foreign": Cifar10Foreign,
    "cifar100": Cifar100,
    "fashion_mnist": FashionMnist,
    "tiny_imagenet": TinyImageNet,
    "faces": Faces,
    "facescrub": FaceScrub,
    "image_folder": ImageFolder,
    "gaussian": Gaussian,
}

__all__ = ["DATASETS", "Dataset", "DatasetError", "Part", "Prior", "Split"]
