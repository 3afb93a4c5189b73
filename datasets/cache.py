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

from smashbench.datasets.base import DatasetError, scaled

FORMAT = 1
"""Raised when what is kept changes."""
MAPPED = 2**26
"""Bytes of images from which on processes share them: a smaller part is not worth a file."""
AT_ONCE = 1000
"""Images that are scaled at once."""


def folder() -> Path:
    """Where decoded sets are kept: ``SMASHBENCH_CACHE``, else ``smashbench`` in
    ``XDG_CACHE_HOME`` or ``~/.cache``. All of it can be deleted at any time."""
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


def mapped(x: Tensor, name: str) -> Tensor:
    """``scaled`` images that all processes share: a file of the cache in memory, which the
    operating system keeps once. Who writes to them has a copy of the page.

    What is in the file is compared with the images, and written again where it differs. Where the
    cache cannot be written, and for few images, they are this process's own.

    Args:
        x: images (N, C, H, W), uint8.
        name: of the file, other for other images.
    """
    if 4 * x.numel() < MAPPED:
        return scaled(x, name)
    path = folder() / f"{name}.float32"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):  # of several processes one writes
            if (found := _map(path, x)) is None:
                part = path.with_name(f".{path.name}.part")
                with part.open("wb") as file:
                    for some in x.split(AT_ONCE):
                        file.write(scaled(some, name).numpy().data)
                shutil.copymode(path.with_suffix(".lock"), part)
                os.replace(part, path)
                found = _map(path, x)
    except OSError:
        found = None
    return scaled(x, name) if found is None else found


def _map(path: Path, x: Tensor) -> Tensor | None:
    """A file of ours as the scaled images ``x``; None where it is not that."""
    if not path.exists() or not _is_ours(path) or path.stat().st_size != 4 * x.numel():
        return None
    found = torch.from_file(str(path), size=x.numel(), dtype=torch.float32).view(x.shape)
    parts = zip(found.split(AT_ONCE), x.split(AT_ONCE), strict=True)
    return found if all(torch.equal(kept, scaled(some, "")) for kept, some in parts) else None


def _is_ours(path: Path) -> bool:
    """Whether no other user has put a file there, but for root."""
    return not hasattr(os, "getuid") or path.stat().st_uid in (0, os.getuid())


def _facts(path: Path) -> tuple[str, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror})") from None
    return str(path), found.st_size, found.st_mtime_ns


def _read(path: Path, fits: Callable[[dict[str, Tensor]], bool]) -> dict[str, Tensor] | None:
    try:
        if not _is_ours(path):
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
