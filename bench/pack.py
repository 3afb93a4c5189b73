"""Records and scores of a results folder in one file: to share, and to read in a moment."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson

from bench.errors import BenchError
from bench.files import write_whole
from bench.saved import read_suite
from bench.store import Store


def pack(folder: Path) -> int:
    """Packs the records and scores of a folder's suite, all of which are verified, and then
    deletes the files that were packed. Returns how many trials that were.

    Sample images, weights and logs stay as they are. A trial that is run again has a record of
    its own again, which counts, until the next ``pack``.

    Raises:
        BenchError: not a results folder, or a run is at work in it; a damaged file; the disk.
    """
    suite, store = read_suite(folder), Store(folder)
    if any(store.claimed(path.name) for path in (folder / "locks").glob("*")):
        raise BenchError(f"a run is at work in {folder}; pack it when that has ended")
    sizes: dict[str, int] = {}
    stamps: dict[str, int] = {}
    trials = 0
    for trial in suite.trials:
        if (record := store.read(trial.key)) is None:
            continue
        trials += 1
        names = [store.record_name(trial.key)]
        if record["status"] == "ok":
            store.arrays(record, "scores")
            names.append(store.arrays_name(trial.key, "scores"))
        for name in names:
            sizes[name] = len(store.content(name))
            with suppress(FileNotFoundError):
                stamps[name] = (folder / name).stat().st_mtime_ns
    if not trials:
        raise BenchError(f"{folder} holds no finished trial; run the suite first")
    write_whole(folder / Store.PACK, _laid_out(sizes, store))
    for name, stamp in stamps.items():
        with suppress(FileNotFoundError):
            if (folder / name).stat().st_mtime_ns == stamp:
                (folder / name).unlink()
    return trials


def _laid_out(sizes: dict[str, int], store: Store) -> Iterator[bytes]:
    """The parts of a file of safetensors: files of these names and sizes as tensors of bytes."""
    header, end = {}, 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
        end += size
    text = orjson.dumps(header)
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in sizes:
        yield store.content(name)
