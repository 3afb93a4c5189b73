"""Locks of the operating system: they end with the process that holds them, however that ends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from filelock import FileLock, Timeout

from smashbench.bench.errors import BenchError
from smashbench.bench.store.files import unwritable


@contextmanager
def lock(path: Path) -> Iterator[bool]:
    """True while this process alone holds the lock, False where another one does.

    Raises:
        BenchError: its folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(path)
        held.acquire(blocking=False)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        yield True
    finally:
        with suppress(OSError):
            path.unlink()  # before the release: whoever comes next finds what was done
        held.release()


@contextmanager
def wait_for_lock(path: Path) -> Iterator[None]:
    """Waits until this process alone holds the lock.

    Raises:
        BenchError: its folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(path).acquire()
    except OSError as error:
        raise unwritable(path, error) from None
    with held:
        yield


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock."""
    if not path.exists():
        return False
    try:
        with lock(path) as free:
            return not free
    except BenchError:  # in a folder that cannot be written to
        return _is_held(path)


def share(file: TextIO) -> None:
    """Shows that an open file is written to, by this process and by those that it is handed to,
    until the last of them has closed it or has ended."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_SH)


def wait_for_writers(path: Path, seconds: float) -> None:
    """Returns when nobody writes to a file to which `share` was applied, or after ``seconds``."""
    end = time.monotonic() + seconds
    while _is_held(path) and time.monotonic() < end:
        time.sleep(0.02)


def _is_held(path: Path) -> bool:
    """Whether another process holds the lock, by reading alone."""
    try:
        import fcntl

        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError) as error:
        return isinstance(error, BlockingIOError)
    return False
