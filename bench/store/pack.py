"""Records and scores of a results folder in one file, or several where there is much, and weights
in another: to share, and to read without unpacking."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from smashbench.bench.errors import BenchError
from smashbench.bench.store.archive import Archive, archive_of
from smashbench.bench.store.files import DamagedError, write_whole
from smashbench.bench.store.packs import PACK, WEIGHTS, new_parts, parts_in
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import RECONSTRUCTIONS, Store
from smashbench.bench.suite.trial import Suite

KEPT = r"(records|scores|reconstructions)/[0-9a-f]+\.(json|safetensors)"
"""Names of what a pack holds of trials."""
LIMIT = 48 * 2**20
"""Bytes of files in one pack, before they are compressed. Hosts of code warn of files beyond 50 MB,
and keep every version of one: what fills a pack stays in it, and only the last one changes."""


def pack(folder: Path, *, reconstructions: bool = False) -> int:
    """Packs the records and scores of a folder's suite, all of which are verified, and then
    deletes the files that were packed. Returns how many trials that were. The pack has a copy of
    ``suite.json`` and of the plug-ins' sources, too: it can be read where there is nothing else.
    What is more than ``LIMIT`` goes into packs of their own, which later calls leave alone as long
    as all that is in one is still so.
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
                "again; KEY is in the column `key` of records.csv"
            )
        write_whole(folder / WEIGHTS, archive_of(files))
    return len(files)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Refuses to pack while a run or another pack is at work."""
    claims = {path.name for path in (store.folder / "locks").glob("*")} - {PACK}
    if any(map(store.claimed, claims)):
        raise BenchError(f"a run is at work in {store.folder}; pack it when that has ended")
    with store.claim(PACK) as ours:
        if not ours:
            raise BenchError(f"{store.folder} is being packed by another process")
        for begun in ("packed", "weights"):
            for part in store.folder.glob(f".{begun}.*.part"):
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
    head: dict[str, bytes] = {}
    for name in ("suite.json", *(plugin.stored_at for plugin in suite.plugins)):
        with suppress(FileNotFoundError):
            head[name] = store.content(name)
    for name in store.packed_names() - files.keys():
        if re.fullmatch(KEPT, name):  # no other path: packs come from others, too
            with suppress(DamagedError):  # what no one asks for, and cannot be read any more
                write_whole(folder / name, store.content(name))
    _write(folder, head, files)
    for name, stamp in stamps.items():
        with suppress(FileNotFoundError):
            if (folder / name).stat().st_mtime_ns == stamp:
                (folder / name).unlink()
    return trials


def _write(folder: Path, head: Mapping[str, bytes], files: Mapping[str, bytes]) -> None:
    """Writes the packs of a folder, so that at every moment each file is in one of them.

    Args:
        folder: the results folder.
        head: what ``PACK`` has beside the last of the files.
        files: of the trials, some of them in packs that stay.
    """
    left, replaced = dict(files), []
    for pack in parts_in(folder):
        archive = Archive(folder / pack)
        if all(name in left and archive.holds(name, left[name]) for name in archive.names):
            for name in archive.names:
                del left[name]
        else:
            replaced.append(pack)
    *full, last = _portions(left)
    for pack, portion in zip(new_parts(folder), full, strict=False):
        write_whole(folder / pack, archive_of(portion))
    write_whole(folder / PACK, archive_of(last | dict(head)))
    for pack in replaced:
        (folder / pack).unlink(missing_ok=True)


def _portions(files: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """The files in order, cut so that none but a file of its own is larger than ``LIMIT``."""
    portion: dict[str, bytes] = {}
    size = 0
    for name, content in files.items():
        if portion and size + len(content) > LIMIT:
            yield portion
            portion, size = {}, 0
        portion[name] = content
        size += len(content)
    yield portion
