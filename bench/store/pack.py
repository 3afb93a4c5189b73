"""Records and scores of a results folder in one file, and weights in another: to share, and to read
without unpacking."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from smashbench.bench.errors import BenchError
from smashbench.bench.store.archive import archive_of
from smashbench.bench.store.files import DamagedError, write_whole
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import RECONSTRUCTIONS, Store
from smashbench.bench.suite.trial import Suite

KEPT = r"(records|scores|reconstructions)/[0-9a-f]+\.(json|safetensors)"
"""Names of what a pack holds of trials."""


def pack(folder: Path, *, reconstructions: bool = False) -> int:
    """Packs the records and scores of a folder's suite, all of which are verified, and then
    deletes the files that were packed. Returns how many trials that were. The pack has a copy of
    ``suite.json`` and of the plug-ins' sources, too: it can be read where there is nothing else.
    What an older pack has and this one does not, of rows that the suite has no more, becomes files
    again.

    Sample images, weights and logs stay as they are, and so do reconstructions unless they are to
    be packed, too: they are large, and only a metric that changes needs them. A trial that is run
    again has a record of its own again, which counts, until the next ``pack``.

    Raises:
        BenchError: not a results folder, or a run is at work in it; a damaged file; the disk.
    """
    suite, store = read_suite(folder), Store(folder)
    with _alone(store):
        return _pack(suite, store, reconstructions)


def pack_weights(folder: Path) -> int:
    """Puts the weights of a folder's victims into one file beside the pack, all that are there and
    those of an older one; the files stay. Wherever both packs are, other attacks can be run on
    these very victims, without training. Returns how many victims that were.

    Raises:
        BenchError: as ``pack``; there are no weights.
    """
    suite, store = read_suite(folder), Store(folder)
    with _alone(store):
        files: dict[str, bytes] = {}
        for trial in (*suite.starts, *suite.victims):
            record, name = store.victim(trial.key), store.victim_name(trial.key)
            if record and store.has(name):
                files[name] = store.weights(trial.key, record.checkpoint_sha256)
        if not files:
            raise BenchError(
                f"{folder} holds no weights: smashbench trial KEY --out {folder} trains a victim "
                "again; smashbench run --dry-run names its key"
            )
        write_whole(folder / Store.WEIGHTS, archive_of(files))
    return len(files)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Refuses to pack while a run or another pack is at work."""
    claims = {path.name for path in (store.folder / "locks").glob("*")} - {Store.PACK}
    if any(map(store.claimed, claims)):
        raise BenchError(f"a run is at work in {store.folder}; pack it when that has ended")
    with store.claim(Store.PACK) as ours:
        if not ours:
            raise BenchError(f"{store.folder} is being packed by another process")
        for name in (Store.PACK, Store.WEIGHTS):
            for part in store.folder.glob(f".{name}.*.part"):
                part.unlink()  # of a pack that was killed
        yield


def _pack(suite: Suite, store: Store, reconstructions: bool) -> int:
    folder = store.folder
    files: dict[str, bytes] = {}
    stamps: dict[str, int] = {}
    trials = 0
    for trial in suite.trials:
        if (record := store.read(trial.key)) is None:
            continue
        trials += 1
        names = [store.record_name(trial.key)]
        if record.status == "ok":
            store.arrays(record, "scores")
            names.append(store.arrays_name(trial.key, "scores"))
            if reconstructions and trial.attack and store.can_rescore(record, deep=True):
                names.append(store.arrays_name(trial.key, RECONSTRUCTIONS))
        for name in names:
            with suppress(FileNotFoundError):
                stamps[name] = (folder / name).stat().st_mtime_ns
            files[name] = store.content(name)
    if not trials:
        raise BenchError(f"{folder} holds no finished trial; run the suite first")
    for name in ("suite.json", *(plugin.stored_at for plugin in suite.plugins)):
        with suppress(FileNotFoundError):
            files[name] = store.content(name)
    for name in store.packed_names() - files.keys():
        if re.fullmatch(KEPT, name):  # no other path: packs come from others, too
            with suppress(DamagedError):  # what no one asks for, and cannot be read any more
                write_whole(folder / name, store.content(name))
    write_whole(folder / Store.PACK, archive_of(files))
    for name, stamp in stamps.items():
        with suppress(FileNotFoundError):
            if (folder / name).stat().st_mtime_ns == stamp:
                (folder / name).unlink()
    return trials
