"""Reading many records on several processes."""

import gc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

MANY = 5_000
"""Records from which on it pays to start processes."""

MOST = 8
"""Processes at most: each reads the suite for itself."""

T = TypeVar("T")
R = TypeVar("R")


def in_shares(
    function: Callable[[Sequence[T]], list[R]], items: Sequence[T], *, records: int
) -> list[R]:
    """What ``function`` makes of ``items``, one result for each, in their order.

    Args:
        function: gets some of the items, in another process where there are many records; it and
            the items must be picklable.
        items: what is to be dealt to the processes.
        records: how many records that will read.
    """
    cores = min(os.cpu_count() or 1, MOST, len(items))
    if cores < 2 or records < MANY:
        return function(items)
    context = get_context("spawn")
    with ProcessPoolExecutor(cores, mp_context=context, initializer=gc.disable) as pool:
        shares = list(pool.map(function, [items[n::cores] for n in range(cores)]))
    return [shares[n % cores][n // cores] for n in range(len(items))]
