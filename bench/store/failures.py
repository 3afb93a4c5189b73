"""Failures, and the successes that they stand in for: nothing that was finished is lost because a
trial was run again and failed."""

from contextlib import suppress

from smashbench.bench.store.files import DamagedError, write_whole
from smashbench.bench.store.record import FailedRecord, FinishedRecord, parse, unsealed
from smashbench.bench.store.store import Store


def write_failure(store: Store, failure: FailedRecord) -> None:
    """Writes why a trial failed. The record of its success, by other code, goes to
    ``set_aside/``."""
    name = store.record_name(failure.key)
    with suppress(DamagedError):
        if store.finished(failure.key):
            write_whole(store.folder / store.ASIDE / name, store.content(name))
    store.write(failure)


def success_before(store: Store, key: str) -> FinishedRecord | None:
    """What a trial had made before it failed; None where it had not, or that is not whole."""
    with suppress(OSError, ValueError):
        text = unsealed((store.folder / store.ASIDE / store.record_name(key)).read_bytes())
        record = parse(text) if text is not None else None
        if record and record.key == key and record.status == "ok":
            return record
    return None


def take_back(store: Store, success: FinishedRecord) -> None:
    """Puts a success in the place of the failure."""
    store.write(success)
    (store.folder / store.ASIDE / store.record_name(success.key)).unlink(missing_ok=True)
