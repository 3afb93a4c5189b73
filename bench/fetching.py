"""Downloads of data sets: of several into one folder at once, one does the work."""

from pathlib import Path

from smashbench.bench.store.locks import wait_for_lock
from smashbench.datasets import Dataset, DatasetError


def fetch(dataset: Dataset, folder: Path) -> None:
    """Downloads a data set into a folder, unless it is there.

    Raises:
        BenchError: the folder cannot be written to.
        DatasetError: the download fails, or leaves a data set that cannot be loaded.
    """
    if _is_there(dataset, folder):
        return
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
