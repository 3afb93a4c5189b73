"""The store of a run: one JSON record per finished trial, written whole or not at all.

A results folder holds ``suite.json`` (the resolved suite) and, by the key of a trial,
``records/KEY.json`` with ``scores/KEY.safetensors`` (per image) and ``samples/KEY.safetensors``
(images), ``victims/KEY.safetensors`` and ``logs/KEY.log``; ``locks/`` while something runs,
``set_aside/`` when something was damaged, and ``packed.safetensors`` when it was packed.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from filelock import FileLock, Timeout
from safetensors.numpy import load

from bench.files import ALTERED, DamagedError, Pack, content_of, unwritable, write_whole

Record = dict[str, Any]
SEAL = b',\n "sha256": "'
"""What separates the text of a record from the SHA-256 of that text, its last field."""
STALE = 3600
"""Seconds after which a half-written file that belongs to no trial is an interrupted run's."""


class Store:
    """The records of one results folder."""

    PACK = "packed.safetensors"
    """Name of the file that holds packed records and scores, see ``bench.pack``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pack: Pack | bool = (folder / self.PACK).exists()

    def __getstate__(self) -> dict[str, Any]:
        """To travel to another process, which opens the pack itself."""
        return self.__dict__ | {"_pack": bool(self._pack)}

    def record_name(self, key: str) -> str:
        return f"records/{key}.json"

    def arrays_name(self, key: str, name: str) -> str:
        """Of the ``scores`` or the ``samples`` of a trial."""
        return f"{name}/{key}.safetensors"

    def record_path(self, key: str) -> Path:
        return self.folder / self.record_name(key)

    def arrays_path(self, key: str, name: str) -> Path:
        return self.folder / self.arrays_name(key, name)

    def content(self, name: str) -> bytes:
        """The content of the file of this name below the folder, else of the packed one.

        Raises:
            OSError: there is neither, or it cannot be read.
            DamagedError: the pack is truncated or altered.
        """
        try:
            return content_of(f"{self.folder}/{name}")
        except FileNotFoundError:
            packed = self._packed(name)
            if packed is None:
                raise
            return packed

    def _packed(self, name: str) -> bytes | None:
        if self._pack is True:
            path = self.folder / self.PACK
            self._pack = path.exists() and Pack(path)  # a damaged one may have been set aside
        return self._pack.get(name) if self._pack else None

    def victim_path(self, key: str) -> Path:
        return self.folder / "victims" / f"{key}.safetensors"

    def log_path(self, key: str) -> Path:
        return self.folder / "logs" / f"{key}.log"

    def has(self, key: str) -> bool:
        """Whether there is a record of a trial, of whatever status."""
        return self.record_path(key).exists() or self._packed(self.record_name(key)) is not None

    def get(self, key: str) -> Record | None:
        """The record of a trial that is finished, with success; else None."""
        record = self.read(key)
        return record if record and record.get("status") == "ok" else None

    def need(self, key: str) -> Record:
        """The record of a trial that is finished, with success.

        Raises:
            DamagedError: it is not.
        """
        if (record := self.get(key)) is None:
            raise DamagedError(self.record_path(key), "not there, or not a success")
        return record

    def read(self, key: str) -> Record | None:
        """The record of a trial, of whatever status; None where there is none.

        Raises:
            DamagedError: it is truncated or altered, or another trial's.
        """
        try:
            content = self.content(self.record_name(key))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedError(self.record_path(key), error.strerror or str(error)) from None
        text = content[: content.rfind(SEAL)]
        if content != _sealed(text):
            raise DamagedError(self.record_path(key), ALTERED)
        record: Record = orjson.loads(text + b"}")
        if record["key"] != key:
            raise DamagedError(self.record_path(key), "does not belong to its name")
        return record

    def arrays(self, record: Record, name: str) -> dict[str, np.ndarray]:
        """The per-image ``scores`` or the ``samples`` (images) of a finished trial.

        Raises:
            DamagedError: the file is missing, truncated or altered.
        """
        return load(self._checked(record, name))

    def check_arrays(self, record: Record, *, pictures: bool = True) -> None:
        """Reads all arrays of a finished trial; a packed one may have lost its samples.

        Args:
            record: of the trial.
            pictures: read the samples, too; else they must only be there.

        Raises:
            DamagedError: a file is missing, truncated or altered.
        """
        for name in record["arrays"]:
            if name == "scores" or (pictures and self.has_samples(record)):
                self._checked(record, name)
            elif self.has_samples(record) and not self._exists(record, name):
                raise DamagedError(self.arrays_path(record["key"], name), os.strerror(ENOENT))

    def has_samples(self, record: Record) -> bool:
        """Whether sample images are there, or should be: not where a pack came without them."""
        packed = self._packed(self.record_name(record["key"])) is not None
        return not packed or self._exists(record, "samples")

    def _exists(self, record: Record, name: str) -> bool:
        return os.path.exists(f"{self.folder}/{self.arrays_name(record['key'], name)}")

    def _checked(self, record: Record, name: str) -> bytes:
        try:
            content = self.content(self.arrays_name(record["key"], name))
        except OSError as error:
            path = self.arrays_path(record["key"], name)
            raise DamagedError(path, error.strerror or str(error)) from None
        if hashlib.sha256(content).hexdigest() != record["arrays"][name]:
            raise DamagedError(self.arrays_path(record["key"], name), ALTERED)
        return content

    def finish(self, record: Record, arrays: Mapping[str, bytes]) -> None:
        """Writes the arrays of a trial and then, with their hashes, its record."""
        for name, content in arrays.items():
            write_whole(self.arrays_path(record["key"], name), content)
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in arrays.items()}
        self.write(record | {"arrays": hashes})

    def write(self, record: Record) -> None:
        """Writes a record, sealed with the hash of its text."""
        text = json.dumps(record, indent=1, allow_nan=False).removesuffix("\n}")
        write_whole(self.record_path(record["key"]), _sealed(text.encode()))

    def set_aside(self, path: Path) -> None:
        """Moves a damaged file to ``set_aside/``: out of the way, and there to be looked at."""
        aside = self.folder / "set_aside" / path.name
        try:
            aside.parent.mkdir(exist_ok=True)
            os.replace(path, aside)
        except FileNotFoundError:
            pass  # gone already
        except OSError as error:
            raise unwritable(aside, error) from None

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """True while this process alone works on a trial, False where another one does.

        A lock of the operating system, so that it ends with the process however that ends.
        """
        path = self.folder / "locks" / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            lock.acquire(blocking=False)
        except Timeout:
            yield False
            return
        except OSError as error:
            raise unwritable(path, error) from None
        try:
            yield True
        finally:
            with suppress(OSError):
                path.unlink()  # before the release: whoever comes next finds the record
            lock.release()

    def claimed(self, key: str) -> bool:
        """Whether another process works on a trial now."""
        if not (self.folder / "locks" / key).exists():
            return False
        with self.claim(key) as free:
            return not free

    def sweep(self) -> None:
        """Deletes what interrupted processes left half-written."""
        for part in [*self.folder.glob(".*.part"), *self.folder.glob("*/.*.part")]:
            with suppress(FileNotFoundError):
                old = time.time() - part.stat().st_mtime > STALE
                if old or (part.parent != self.folder and not self.claimed(part.name[1:17])):
                    part.unlink()


def _sealed(text: bytes) -> bytes:
    return text + SEAL + hashlib.sha256(text).hexdigest().encode() + b'"\n}\n'
