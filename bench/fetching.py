"""Downloads of data sets: of several into one folder at once, one does the work."""

import inspect
import platform
import shutil
from pathlib import Path

from smashbench.bench.errors import BenchError
from smashbench.bench.store.locks import wait_for_lock
from smashbench.datasets import Dataset, DatasetError


def fetch(dataset: Dataset, folder: Path) -> None:
    """Downloads a data set into a folder, unless it is there.

    Raises:
        BenchError: the folder cannot be written to, or this Python cannot unpack safely.
        DatasetError: the download fails, or leaves a data set that cannot be loaded.
    """
    if _is_there(dataset, folder):
        return
    if "filter" not in inspect.signature(shutil.unpack_archive).parameters:
        raise BenchError(
            "archives are unpacked safely from Python 3.11.4 on, and this is "
            f"{platform.python_version()}: use a newer one (make clean, make PYTHON=python3.12 "
            ".venv/ready), or download the set and unpack it yourself (docs/data.md)"
        )
    with wait_for_lock(folder / ".fetch.lock"):
        if not _is_there(dataset, folder):  # another process may have been quicker
            dataset.fetch(folder)
            dataset.load(folder)


def _is_there(dataset: Dataset, folder: Path) -> bool:
    try:
        dataset.load(folder)
    except DatasetError:
        return False
    return True
