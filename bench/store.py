"""The store of a run: one JSON record per finished trial, written whole or not at all.

A results folder holds ``suite.json`` (the resolved suite), ``records/KEY.json`` with
``records/KEY.safetensors`` (per-image scores and sample images), and ``victims/KEY.safetensors``.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from bench.errors import BenchError

Record = dict[str, Any]


def key_of(config: Mapping[str, Any]) -> str:
    """The key of a configuration: a hash of its canonical JSON, 16 hexadecimal digits.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that it is there complete or not there at all (temporary file, fsync,
    rename).

    Raises:
        BenchError: the folder cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise BenchError(f"cannot write {path} ({reason}); choose another --out") from None


def read_checked(path: Path, sha256: str) -> bytes:
    """Reads a file whose content must have this SHA-256.

    Raises:
        BenchError: the file is missing, truncated or altered.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror
    else:
        if hashlib.sha256(content).hexdigest() == sha256:
            return content
        reason = "truncated or altered"
    raise BenchError(f"{path}: {reason}; delete {record_of(path)} and run again to redo it")


def record_of(path: Path) -> Path:
    """The record that a checkpoint belongs to."""
    return path.parent.parent / "records" / f"{path.stem}.json"


def write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Reads a JSON file of the store.

    Raises:
        BenchError: the file is missing, truncated or altered.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise BenchError(f"cannot read {path} ({error.strerror})") from None
    except ValueError:
        raise BenchError(f"{path} is truncated or altered; delete it and run again") from None


class Store:
    """The records of one results folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record_path(self, key: str) -> Path:
        return self.folder / "records" / f"{key}.json"

    def arrays_path(self, key: str) -> Path:
        return self.folder / "records" / f"{key}.safetensors"

    def victim_path(self, key: str) -> Path:
        return self.folder / "victims" / f"{key}.safetensors"

    def get(self, key: str) -> Record | None:
        """The record of a trial that is finished, with success; else None."""
        if not self.record_path(key).exists():
            return None
        record = self.read(key)
        return record if record.get("status") == "ok" else None

    def read(self, key: str) -> Record:
        record: Record = read_json(self.record_path(key))
        if not isinstance(record, dict) or key_of(record.get("config", {})) != key:
            path = self.record_path(key)
            raise BenchError(f"{path} does not belong to its name; delete it and run again")
        return record

    def arrays(self, record: Record) -> dict[str, np.ndarray]:
        """Per-image scores and sample images of a finished trial.

        Raises:
            BenchError: the file is missing, truncated or altered.
        """
        return load(read_checked(self.arrays_path(record["key"]), record["arrays_sha256"]))

    def write(self, record: Record) -> None:
        write_json(self.record_path(record["key"]), record)
