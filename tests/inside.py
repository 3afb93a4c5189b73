"""Attacks in a thread of this process instead of one of their own: for a device that no fork has,
and to count their CPU-seconds. All else is as it is behind the wall."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Thread
from unittest.mock import patch

from smashbench.bench.experiment import cell, wall


@contextmanager
def cells_inside() -> Iterator[None]:
    """As long as the context lasts."""

    def enter() -> Connection:
        ours, theirs = Pipe()
        Thread(target=cell.inhabit, args=(theirs,), daemon=True).start()
        return ours

    with patch.object(wall, "enter", enter):
        yield
