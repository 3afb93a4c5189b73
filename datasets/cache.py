"""Decoded images, kept on disk, so that files are checked and decoded once."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from smashbench.datasets.base import DatasetError

FORMAT = 1
"""Raised when what is kept changes."""


def folder() -> Path:
    """Where decoded sets are kept: ``SMASHBENCH_CACHE``, else ``~/.cache/smashbench``. All of it
    can be deleted at any time."""
    if named := os.environ.get("SMASHBENCH_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "smashbench"


def decoded(
    name: str,
    options: Mapping[str, Any],
    files: Iterable[Path],
    decode: Callable[[], dict[str, Tensor]],
    fits: Callable[[dict[str, Tensor]], bool] = lambda tensors: True,
) -> dict[str, Tensor]:
    """What ``decode`` returns, from the cache where the files are the same as when it was kept:
    path, size and time of change of each.

    What is kept is verified by its SHA-256; a damaged copy is decoded anew, and so is one that
    another user has put there or that does not fit. Nothing is kept of a ``decode`` that fails.
    Where the cache cannot be written, every call decodes.

    Raises:
        DatasetError: a file cannot be read; whatever ``decode`` raises.

    Args:
        name: of the data set.
        options: of the decoding, as JSON values.
        files: what ``decode`` reads.
        decode: makes the tensors.
        fits: whether tensors can be what ``decode`` makes.
    """
    facts = [_facts(path) for path in files]
    text = json.dumps([FORMAT, name, dict(options), sorted(facts)])
    path = folder() / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.safetensors"
    if (kept := _read(path, fits)) is not None:
        return kept
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_suffix(".lock"))
        lock.acquire()
    except OSError:
        return decode()
    try:  # of several processes one decodes, and the others wait for it
        kept = _read(path, fits)
        if kept is None:
            kept = decode()
            with suppress(OSError, SafetensorError):
                _write(path, kept)
        return kept
    finally:
        lock.release()


def _facts(path: Path) -> tuple[str, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror})") from None
    return str(path), found.st_size, found.st_mtime_ns


def _read(path: Path, fits: Callable[[dict[str, Tensor]], bool]) -> dict[str, Tensor] | None:
    try:
        if hasattr(os, "getuid") and path.stat().st_uid not in (0, os.getuid()):
            return None
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            sha256 = (file.metadata() or {}).get("sha256")
    except (OSError, SafetensorError):
        return None
    return tensors if _hash(tensors) == sha256 and fits(tensors) else None


def _write(path: Path, tensors: dict[str, Tensor]) -> None:
    part = path.with_name(f".{path.name}.part")  # one name, and so no rests: we hold the lock
    save_file(tensors, part, {"sha256": _hash(tensors)})
    shutil.copymode(path.with_suffix(".lock"), part)  # as the umask allows
    os.replace(part, path)


def _hash(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}{tuple(tensors[name].shape)}{tensors[name].dtype}".encode())
        digest.update(tensors[name].contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
