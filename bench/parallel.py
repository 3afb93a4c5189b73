"""Reading many records, and drawing what is in them, on several processes."""

import atexit
import gc
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from threading import Lock, Thread
from types import TracebackType
from typing import TypeVar

MANY = 5_000
"""Records from which on it pays to start processes."""

MOST = 8
"""Processes at most: each reads the suite for itself."""

SHARES = 8
"""Shares of a list for each process: what one has begun the others wait for in the end."""

T = TypeVar("T")
R = TypeVar("R")


class Crew:
    """The present process, and others beside it where there are many records.

    >>> with Crew() as crew:
    ...     crew.shares(sorted, [3, 1, 2])
    [1, 2, 3]
    """

    def __init__(self) -> None:
        self.size = 1
        self._pool: ProcessPoolExecutor | None = None
        self._collecting = gc.isenabled()

    def hire(self, records: int, begin: Callable[[], object] | None = None) -> None:
        """Starts processes, one for each core, if so many records are worth it.

        Args:
            records: how many there are to read.
            begin: what the processes do first, while this one prepares their work.
        """
        cores = min(os.cpu_count() or 1, MOST)
        if cores < 2 or records < MANY or self._pool:
            return
        self.size = cores
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(cores - 1, mp_context=context, initializer=_prepare)
        gc.disable()  # it would look at every record again and again
        if begin:
            for _ in range(cores - 1):
                self._pool.submit(begin)

    def start(self, function: Callable[[T], R], items: Sequence[T]) -> Callable[[], list[R]]:
        """Begins with ``function`` of every item, all of them picklable, in the other processes.

        Returns what finishes it: a function that does in this process what no other one has begun,
        last items first, and what a process that was killed has left, and returns all results in
        the order of the items.
        """
        pool, todo, lock = self._pool, deque(range(len(items))), Lock()
        futures: dict[int, Future[R]] = {}

        def pass_on(done: Future[R] | None = None) -> None:
            if done and (done.cancelled() or isinstance(done.exception(), BrokenProcessPool)):
                return
            with lock:
                if not pool or not todo:
                    return
                n = todo.popleft()
                try:
                    future = futures[n] = pool.submit(function, items[n])
                except RuntimeError:  # it is broken, or shut down after an error
                    todo.append(n)
                    return
            future.add_done_callback(pass_on)

        def taken() -> int | None:
            with lock:
                return todo.pop() if todo else None

        def finish() -> list[R]:
            mine = {}
            while (n := taken()) is not None:
                mine[n] = function(items[n])
            for n, future in futures.items():
                try:
                    mine[n] = future.result()
                except BrokenProcessPool:
                    mine[n] = function(items[n])
            return [mine[n] for n in range(len(items))]

        for _ in range(2 * (self.size - 1)):  # one at work, one at hand
            pass_on()
        return finish

    def shares(self, function: Callable[[Sequence[T]], list[R]], items: Sequence[T]) -> list[R]:
        """What ``function`` makes of shares of ``items``, a result for each, in their order."""
        size = -(-len(items) // (self.size * SHARES)) if self.size > 1 else len(items)
        shares = [items[n : n + size] for n in range(0, len(items), size or 1)]
        return [result for found in self.start(function, shares)() for result in found]

    def __enter__(self) -> "Crew":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
        if self._collecting:
            gc.enable()


def _prepare() -> None:
    """Of another process: it ends when this one says so, or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_follow, daemon=True).start()
    gc.disable()
    atexit.register(os._exit, 0)  # freeing a million objects one by one takes half a second


def _follow() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)
