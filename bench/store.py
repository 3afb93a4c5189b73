"""The store of a run: one JSON record per finished trial, written whole or not at all.

A results folder holds ``suite.json`` (the resolved suite) and, by the key of a trial,
``records/KEY.json`` with ``scores/KEY.safetensors`` (per image) and ``samples/KEY.safetensors``
(images), ``victims/KEY.safetensors`` and ``logs/KEY.log``; ``locks/`` while something runs, and
``set_aside/`` when something was damaged.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from filelock import FileLock, Timeout
from safetensors.numpy import load

from bench.errors import BenchError

Record = dict[str, Any]
SEAL = b',\n "sha256": "'
"""What separates the text of a record from the SHA-256 of that text, its last field."""
STALE = 3600
"""Seconds after which a half-written file that belongs to no trial is an interrupted run's."""


class DamagedError(BenchError):
    """A file of the store is missing, truncated or altered.

    Args:
        path: the file.
        reason: what is wrong with it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; run the suite again to redo it")
        self.path, self.reason = path, reason

    def __reduce__(self) -> tuple[type, tuple[Path, str]]:
        return type(self), (self.path, self.reason)  # to travel between processes


def key_of(config: Mapping[str, Any]) -> str:
    """The key of a configuration: a hash of its canonical JSON, 16 hexadecimal digits.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return key_of_text(canonical(config))


def canonical(config: Mapping[str, Any]) -> str:
    """JSON with sorted keys and without spaces."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of_text(text: str) -> str:
    """The key of a configuration from its ``canonical`` text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that it is there complete or not there at all (temporary file, fsync,
    rename).

    Raises:
        BenchError: the folder cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{path.name}."
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".part")
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> BenchError:
    """What to say when ``path`` cannot be written."""
    reason = error.strerror or str(error)
    hint = "make room or choose another --out; what is finished is kept"
    return BenchError(f"cannot write {path} ({reason}); {hint}")


def read_checked(path: Path, sha256: str) -> bytes:
    """Reads a file whose content must have this SHA-256.

    Raises:
        DamagedError: the file is missing, truncated or altered.
    """
    try:
        content = _content(path)
    except OSError as error:
        raise DamagedError(path, error.strerror or str(error)) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedError(path, "truncated or altered")
    return content


def _content(path: Path) -> bytes:
    """``path.read_bytes()`` in half the time, which counts over a hundred thousand files."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Reads a JSON file of the store.

    Raises:
        DamagedError: the file is missing, truncated or altered.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise DamagedError(path, error.strerror or str(error)) from None
    except ValueError:
        raise DamagedError(path, "truncated or altered") from None


class Store:
    """The records of one results folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record_path(self, key: str) -> Path:
        return Path(f"{self.folder}/records/{key}.json")

    def arrays_path(self, key: str, name: str) -> Path:
        """Of the ``scores`` or the ``samples`` of a trial."""
        return Path(f"{self.folder}/{name}/{key}.safetensors")

    def victim_path(self, key: str) -> Path:
        return self.folder / "victims" / f"{key}.safetensors"

    def log_path(self, key: str) -> Path:
        return self.folder / "logs" / f"{key}.log"

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
        path = self.record_path(key)
        try:
            content = _content(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedError(path, error.strerror or str(error)) from None
        text = content[: content.rfind(SEAL)]
        if content != _sealed(text):
            raise DamagedError(path, "truncated or altered")
        record: Record = orjson.loads(text + b"}")
        if record["key"] != key:
            raise DamagedError(path, "does not belong to its name")
        return record

    def arrays(self, record: Record, name: str) -> dict[str, np.ndarray]:
        """The per-image ``scores`` or the ``samples`` (images) of a finished trial.

        Raises:
            DamagedError: the file is missing, truncated or altered.
        """
        return load(read_checked(self.arrays_path(record["key"], name), record["arrays"][name]))

    def check_arrays(self, record: Record) -> None:
        """Reads all arrays of a finished trial.

        Raises:
            DamagedError: a file is missing, truncated or altered.
        """
        for name, sha256 in record["arrays"].items():
            read_checked(self.arrays_path(record["key"], name), sha256)

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
