"""Files of a results folder: written whole or not at all, and verified when they are read."""

import hashlib
import json
import mmap
import os
import tempfile
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from bench.errors import BenchError

ALTERED = "truncated or altered"
PART = 2**15
"""Bytes of a small file that are read at once."""


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


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Writes a file, at once or part by part, so that it is there complete or not there at all
    (temporary file, fsync, rename).

    Raises:
        BenchError: the folder cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{path.name}."
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".part")
        with os.fdopen(handle, "wb") as stream:
            stream.writelines([content] if isinstance(content, bytes) else content)
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


def content_of(path: str) -> bytes:
    """The content of a small file: ``Path.read_bytes`` in half the time, for there may be a
    hundred thousand.

    Raises:
        OSError: it cannot be read.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        content = os.read(file, PART)
        while part := os.read(file, PART):
            content += part
        return content
    finally:
        os.close(file)


def read_checked(path: Path, sha256: str) -> bytes:
    """Reads a file whose content must have this SHA-256.

    Raises:
        DamagedError: the file is missing, truncated or altered.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedError(path, error.strerror or str(error)) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedError(path, ALTERED)
    return content


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
        raise DamagedError(path, ALTERED) from None


_OFFSETS = itemgetter("data_offsets")


class Pack:
    """Files by name in one file, which is laid out as safetensors of bytes.

    Raises:
        DamagedError: it is truncated or altered.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open(path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._start = 8 + int.from_bytes(self._bytes[:8], "little")
            self._files = orjson.loads(self._bytes[8 : self._start])
            ends = [end for _, end in map(_OFFSETS, self._files.values())]
            whole = self._start + max(ends, default=0) == len(self._bytes)
        except OSError as error:
            raise DamagedError(path, error.strerror or str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            whole = False
        if not whole:
            raise DamagedError(path, ALTERED)

    def get(self, name: str) -> bytes | None:
        """The content of a file; None where there is none of this name."""
        if (entry := self._files.get(name)) is None:
            return None
        start, end = _OFFSETS(entry)
        return self._bytes[self._start + start : self._start + end]
