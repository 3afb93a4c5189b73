"""Arrays from files and from memory, as tensors; files are mapped, and no pickle is read."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from smashbench.bench.errors import BenchError, unknown

SUFFIXES = (".npy", ".npz", ".safetensors")
MAGIC = {".npy": b"\x93NUMPY", ".npz": b"PK"}
"""What files begin with."""
PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt", ".joblib")


def tensor_of(value: Any, what: str) -> Tensor:
    """An array as a tensor on the CPU, of the type that it has.

    Args:
        value: a tensor, a NumPy array, or the path of a file: ``z.npy``, or ``z.npz`` and
            ``z.safetensors``, with ``:NAME`` behind it where they hold several arrays. ``npy`` and
            ``safetensors`` are mapped into memory: rows are read when they are used.
        what: for messages: ``features``, ``images``.

    Raises:
        BenchError: there is no such file, it is none of these, or holds something else.
    """
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray):
        return _as_tensor(value, what, what)
    if not isinstance(value, str | Path):
        kind = type(value).__name__
        raise BenchError(f"{what}: should be an array, a tensor or a path; it is {kind}")
    if not str(value):
        raise BenchError(f"{what}: the path is empty; give the file that they are in")
    try:
        path, name = _named(str(value))
        there, is_file = path.exists(), path.is_file()
    except OSError as error:
        raise unreadable(what, value, error) from None
    if path.suffix.lower() in PICKLES:
        raise BenchError(
            f"{what}: {path} may be a pickle, which can run code and is never read; save it with "
            "numpy.save or safetensors.torch.save_file"
        )
    if not there:
        raise BenchError(f"{what}: there is no file {path}")
    if path.suffix.lower() not in SUFFIXES:
        raise BenchError(f"{what}: {path} should be a file {', '.join(SUFFIXES)}")
    if not is_file:
        raise BenchError(f"{what}: {path} is no file")
    if (magic := MAGIC.get(path.suffix.lower())) and not _begins(path, magic):
        raise BenchError(f"{what}: {path} is no {path.suffix} file; save it with numpy.save")
    try:
        if path.suffix.lower() == ".safetensors":
            with safe_open(path, "pt") as opened:
                return opened.get_tensor(_only(name, list(opened.keys()), what, path))
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return _as_tensor(archive[_only(name, archive.files, what, path)], what, path)
        if name:
            raise BenchError(f"{what}: {path} holds one array, which has no name: leave out {name}")
        return _as_tensor(np.load(path, mmap_mode="c", allow_pickle=False), what, path)
    except BenchError:
        raise
    except Exception as error:  # of a damaged file NumPy raises whatever its bytes bring about
        if any(word in str(error) for word in ("Object arrays", "Python objects", "pickled")):
            raise BenchError(
                f"{what}: {path} holds Python objects, which are a pickle and never read; save "
                "numbers: numpy.save(path, numpy.stack(list_of_arrays))"
            ) from None
        raise BenchError(f"{what}: {path} cannot be read ({error})") from None


def unreadable(what: str, path: object, error: OSError) -> BenchError:
    """What to say where a path cannot be looked at, or read."""
    why = error.strerror or str(error)
    return BenchError(f"{what}: {error.filename or path} cannot be read ({why})")


def _begins(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return True  # reading it says why not


def _named(text: str) -> tuple[Path, str]:
    """``z.npz:layer1`` as a path and a name."""
    if ":" in text and not Path(text).exists():
        path, _, name = text.rpartition(":")
        if Path(path).suffix.lower() in SUFFIXES:
            return Path(path), name
    return Path(text), ""


def _only(name: str, names: list[str], what: str, path: Path) -> str:
    if name:
        if name not in names:
            raise BenchError(f"{what}: {path}: {unknown('array', name, names)}")
        return name
    if len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise BenchError(
            f"{what}: {path} holds the arrays {listed}: name one, e.g. {path}:{(names or ['x'])[0]}"
        )
    return names[0]


def _as_tensor(array: np.ndarray, what: str, place: object) -> Tensor:
    where = what if place == what else f"{what}: {place}"
    if not isinstance(array, np.ndarray):  # another member of a zip archive
        raise BenchError(f"{where} holds something that is no array: name one that is")
    if array.dtype.hasobject:
        raise BenchError(f"{where} holds Python objects: should be an array of numbers")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(step < 0 for step in array.strides):
        array = array.copy()
    try:
        with warnings.catch_warnings():  # that it is not writable: nobody writes
            warnings.simplefilter("ignore", UserWarning)
            return torch.from_numpy(array)
    except TypeError:
        raise BenchError(f"{where} holds {array.dtype}: should be numbers") from None
