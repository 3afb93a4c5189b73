import os
from pathlib import Path

import pytest
import torch

from datasets import Split
from datasets.photos import Photos

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def photos() -> Split:
    return Photos(train=200, val=50, aux=200, test=100).load()


@pytest.fixture(scope="session")
def data_root() -> Path:
    folder = os.environ.get("SMASHBENCH_DATA")
    if not folder:
        pytest.skip("SMASHBENCH_DATA is not set: no CIFAR-10 to test on")
    return Path(folder)
