"""Records and scores of a results folder in one file: to share, and to read without unpacking."""

import re
from contextlib import suppress
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
    claims = {path.name for path in (folder / "locks").glob("*")} - {Store.PACK}
    if any(map(store.claimed, claims)):
        raise BenchError(f"a run is at work in {folder}; pack it when that has ended")
    with store.claim(Store.PACK) as ours:
        if not ours:
            raise BenchError(f"{folder} is being packed by another process")
        for part in folder.glob(f".{Store.PACK}.*.part"):
            part.unlink()  # of a pack that was killed
        return _pack(suite, store, reconstructions)


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
