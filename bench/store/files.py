"""Files of a results folder: written whole or not at all, and verified when they are read."""

import errno
import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

from smashbench.bench.errors import BenchError

ALTERED = "truncated or altered"


class DamagedError(BenchError):
    """A file of the store is missing, truncated, altered, or holds what cannot be.

    Args:
        path: the file.
        reason: what is wrong with it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; {_again(path)}")
        self.path, self.reason = path, reason

    def __reduce__(self) -> tuple[type, tuple[Path, str]]:
        return type(self), (self.path, self.reason)  # to travel between processes


OF_TRIALS = ("records", "scores", "samples", "reconstructions", "victims")
"""Folders of what trials made."""


def _again(path: Path) -> str:
    """How to have a damaged file again."""
    if path.parent.name in OF_TRIALS:
        return f"smashbench rerun {path.parent.parent} makes it anew"
    if path.name in ("audit.json", "scores.safetensors"):
        return "audit again"
    return "get it again from where it came, or make it anew"


OUT_OF_REACH = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    }
)
"""What says nothing of a file's content: it may be whole, and must stay where it is."""


def unread(path: Path, error: OSError) -> BenchError:
    """What it means that a file could not be read: that it is damaged, unless it is out of
    reach."""
    if error.errno in OUT_OF_REACH:
        return BenchError(
            f"cannot read {path} ({words(error)}); it was left as it is: make it readable, and "
            "type the same command again"
        )
    return DamagedError(path, words(error))


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that it is there complete or not there at all (temporary file, fsync,
    rename).

    Raises:
        BenchError: the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise unwritable(path, error) from None


NEXT = ".next"


def write_next(path: Path, content: bytes) -> None:
    """Writes a file beside that whose place ``take_next`` gives it; nothing if they are the same.

    Raises:
        BenchError: the folder cannot be written.
    """
    with suppress(OSError):
        if path.read_bytes() == content:
            return
    write_whole(path.with_name(path.name + NEXT), content)


def take_next(path: Path, sha256: str) -> bytes | None:
    """The content of the file that is to take the place of this one, which it does now, if it has
    this SHA-256; else None."""
    following = path.with_name(path.name + NEXT)
    try:
        content = following.read_bytes()
    except OSError:
        return None
    if sha256_of(content) != sha256:
        return None
    with suppress(OSError):  # in a folder that cannot be written to
        os.replace(following, path)
    return content


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def unwritable(path: Path, error: OSError) -> BenchError:
    """What to say when ``path`` cannot be written."""
    hint = "make room or use another folder; what is finished is kept"
    return BenchError(f"cannot write {path} ({words(error)}); {hint}")


def words(error: OSError) -> str:
    """``No such file or directory``."""
    return error.strerror or str(error)


Stamp = tuple[int, int, int]
"""Number, time of change and size of a file."""


def stamp_of(path: Path) -> Stamp | None:
    """What tells a file from another that replaces it; None where there is none.

    Raises:
        BenchError: it is out of reach.
    """
    try:
        found = path.stat()
    except OSError as error:
        if isinstance(problem := unread(path, error), DamagedError):
            return None
        raise problem from None
    return found.st_ino, found.st_mtime_ns, found.st_size
