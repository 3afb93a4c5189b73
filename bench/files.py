"""Files of a results folder: written whole or not at all, and verified when they are read."""

import hashlib
import json
import mmap
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from bench.errors import BenchError


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


def read_checked(path: Path, sha256: str) -> bytes:
    """Reads a file whose content must have this SHA-256.

    Raises:
        DamagedError: the file is missing, truncated or altered.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedError(path, error.strerror or str(error)) from None
    return verified(path, content, sha256)


def verified(path: Path, content: bytes, sha256: str) -> bytes:
    """The content of ``path``, which must have this SHA-256.

    Raises:
        DamagedError: it has not.
    """
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedError(path, "truncated or altered")
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
        raise DamagedError(path, "truncated or altered") from None


class Pack:
    """Files by name in one file, which is laid out as safetensors of bytes.

    Raises:
        DamagedError: it is truncated or altered.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open(path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            start = 8 + int.from_bytes(self._bytes[:8], "little")
            header = orjson.loads(self._bytes[8:start])
            places = {name: entry["data_offsets"] for name, entry in header.items()}
            self._places = {name: (start + a, start + b) for name, (a, b) in places.items()}
        except OSError as error:
            raise DamagedError(path, error.strerror or str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DamagedError(path, "truncated or altered") from None
        if max((end for _, end in self._places.values()), default=start) != len(self._bytes):
            raise DamagedError(path, "truncated or altered")

    def get(self, name: str) -> bytes | None:
        """The content of a file; None where there is none of this name."""
        if (place := self._places.get(name)) is None:
            return None
        return self._bytes[slice(*place)]
