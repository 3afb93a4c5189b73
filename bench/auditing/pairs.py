"""What is audited: images and, for each, features, a label and the group it belongs to."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from smashbench.attacks.similarity import WINDOW
from smashbench.bench.auditing.tensors import tensor_of, unreadable
from smashbench.bench.errors import BenchError
from smashbench.datasets.folders import is_image, read_images

Layout = Literal["NCHW", "NHWC"]
AT_ONCE = 256
"""Rows that are read at once."""
MOST_CLASSES = 1_000_000
"""More are ids of something else, and would need memory as if all of them occurred."""
FOLDERS = "folders"
"""As labels or groups: the folder that an image lies in."""


@dataclass(frozen=True)
class Images:
    """Images as they were given.

    Args:
        stored: (N, C, H, W), uint8 in 0..255 or numbers in [0, 1]; perhaps in a file.
        folders: (N,) the number of the folder of each, where they came from folders.
    """

    stored: Tensor
    folders: Tensor | None = None

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one."""
        c, h, w = self.stored.shape[1:]
        return c, h, w

    def take(self, index: Tensor) -> Tensor:
        """Images (n, C, H, W), float32 in [0, 1]."""
        found = self.stored[index]
        scaled = found.float().div_(255) if found.dtype == torch.uint8 else found.float()
        return scaled.clamp_(0, 1).contiguous()

    def digests(self) -> Iterator[bytes]:
        """A hash of each, in 8 bits a pixel: equal for images that are."""
        for part in torch.arange(len(self)).split(AT_ONCE):
            for image in (self.take(part) * 255).round().to(torch.uint8).numpy():
                yield hashlib.blake2b(image.tobytes(), digest_size=12).digest()


@dataclass(frozen=True)
class Pairs:
    """Images and what belongs to each.

    Args:
        images: N of them.
        features: (N, ...) as they leave the client, or (N, R, ...) for R releases of each image
            where ``repeated``; None where an encoder makes them.
        repeated: whether the second axis of the features counts releases.
        labels: (N,), int64 from 0.
        groups: (N,), int64: images of one group are not independent.
    """

    images: Images
    features: Tensor | None = None
    repeated: bool = False
    labels: Tensor | None = None
    groups: Tensor | None = None

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Of one release."""
        assert self.features is not None
        return tuple(self.features.shape[2 if self.repeated else 1 :])

    def take_features(self, index: Tensor) -> Tensor:
        """Features of images at ``index`` (n,), float32."""
        assert self.features is not None
        return self.features[index].float()


def images_of(value: Any, layout: Layout | None, size: int | None) -> Images:
    """Images from an array, a file or a folder of image files.

    A folder is read in the order of its sorted paths, folders below it too; images become RGB of
    ``size`` x ``size`` pixels, 64 where nothing is said.

    Raises:
        BenchError: they are not images, or it is not clear which axis is which.
    """
    if isinstance(value, str | Path) and os.path.isdir(value):  # "" is none
        if layout is not None:
            raise BenchError(f"--layout is of arrays, and {value} is a folder: leave out --layout")
        return _from_folder(Path(value), 64 if size is None else size)
    if size is not None:
        raise BenchError(f"--size {size} is of folders of image files: scale arrays yourself")
    found = _channels_first(tensor_of(value, "images"), layout)
    if not len(found) or min(found.shape[2:]) < WINDOW:
        least = f"{WINDOW}x{WINDOW}"
        shape = tuple(found.shape)
        raise BenchError(f"images {shape}: should be at least {least} pixels, and more than none")
    if found.dtype == torch.uint8:
        return Images(_not_black(found))
    _check_range(found)
    return Images(found)


def _channels_first(found: Tensor, layout: Layout | None) -> Tensor:
    shape = tuple(found.shape)
    if found.ndim == 3:
        raise BenchError(
            f"images {shape}: should have four axes; of grey images (N, H, W) make (N, 1, H, W)"
        )
    if found.ndim != 4:
        raise BenchError(f"images {shape}: should be (N, C, H, W) or (N, H, W, C)")
    first, last = shape[1] in (1, 3), shape[3] in (1, 3)
    if layout is None:
        if first and last:
            raise BenchError(f"images {shape}: say which it is, --layout NCHW or --layout NHWC")
        if not first and not last:
            raise BenchError(
                f"images {shape}: no axis has 1 or 3 channels; convert them to grey or RGB"
            )
        layout = "NCHW" if first else "NHWC"
    if not (first if layout == "NCHW" else last):
        channels = shape[1] if layout == "NCHW" else shape[3]
        raise BenchError(f"images {shape} in {layout} have {channels} channels: should be 1 or 3")
    return found if layout == "NCHW" else found.permute(0, 3, 1, 2)


def _check_range(found: Tensor) -> None:
    """Refuses what is no images in [0, 1]."""
    if not found.is_floating_point():
        raise BenchError(
            f"images are {_type(found)}: should be uint8 in 0..255 or floats in [0, 1]"
        )
    low, high = _span(found)
    if not isfinite(low) or not isfinite(high):
        raise BenchError("images are not finite: some pixels are NaN or infinite; leave those out")
    if low < 0 or high > 1:
        if low >= 0 and high <= 255:
            hint = "divide them by 255, or save them as uint8"
        else:
            hint = "undo the normalisation; an encoder that wants it does it itself"
        raise BenchError(f"images span [{low:.3g}, {high:.3g}]: should be in [0, 1]; {hint}")
    if high <= 2 / 255:
        raise BenchError(f"images span [{low:.3g}, {high:.3g}]: all are black; scaled twice?")


def _not_black(images: Tensor) -> Tensor:
    """Images in uint8, as they are.

    Raises:
        BenchError: none has a pixel above 2, as if they had been in [0, 1] before.
    """
    low, high = _span(images)
    if high <= 2:
        raise BenchError(
            f"images span [{low:.0f}, {high:.0f}] of 255: all are black; save those in [0, 1] as "
            "floats, or times 255"
        )
    return images


def _from_folder(folder: Path, size: int) -> Images:
    if not WINDOW <= size <= 1024:
        raise BenchError(f"--size {size}: should be from {WINDOW} to 1024 pixels")
    try:
        paths = sorted(path for path in _files(folder) if is_image(path) and path.is_file())
    except OSError as error:
        raise unreadable("images", folder, error) from None
    if not paths:
        raise BenchError(f"images: {folder} holds no image file")
    parents = {parent: n for n, parent in enumerate(sorted({path.parent for path in paths}))}
    numbers = torch.tensor([parents[path.parent] for path in paths])
    return Images(_not_black(read_images(paths, size, folder.name)), numbers)


def _files(folder: Path) -> Iterator[Path]:
    """All that lies in a folder and below it, but for folders. Links are followed, to every folder
    once.

    Raises:
        OSError: one of the folders cannot be read; without its images, others would be numbered
            as theirs.
    """

    def refuse(error: OSError) -> None:
        raise error

    seen = {os.path.realpath(folder)}
    for place, below, names in os.walk(folder, onerror=refuse, followlinks=True):
        real = {os.path.realpath(Path(place, name)): name for name in sorted(below, reverse=True)}
        below[:] = sorted(name for path, name in real.items() if path not in seen)
        seen |= real.keys()
        yield from (Path(place, name) for name in names)


def pairs_of(
    images: Images, features: Any, labels: Any, groups: Any, *, repeated: bool = False
) -> Pairs:
    """Images with what belongs to each; there is as much of everything.

    Raises:
        BenchError: counts differ, or something is not what it should be.
    """
    found = None if features is None else tensor_of(features, "features")
    if found is not None:
        least = 3 if repeated else 2
        if found.ndim < least:
            wanted = "(N, R, ...) for R releases of each image" if repeated else "(N, ...)"
            raise BenchError(f"features {tuple(found.shape)}: should be {wanted}")
        if 0 in found.shape[1:]:
            raise BenchError(
                f"features {tuple(found.shape)}: there is no number for an image; was a part cut "
                "out that they do not have?"
            )
        if found.is_complex() or found.dtype == torch.bool:
            raise BenchError(f"features are {_type(found)}: should be real numbers")
        _same_count("features", len(found), images)
    return Pairs(
        images=images,
        features=found,
        repeated=repeated,
        labels=_numbers("labels", labels, images),
        groups=_numbers("groups", groups, images),
    )


def _numbers(what: str, value: Any, images: Images) -> Tensor | None:
    """Labels or groups (N,), int64 from 0."""
    if value is None:
        return None
    if isinstance(value, str) and value == FOLDERS:
        if images.folders is None:
            raise BenchError(f"--{what} folders: the images come from no folder; give a file")
        return images.folders
    found = tensor_of(value, what)
    if found.ndim != 1 or found.is_floating_point() or found.is_complex():
        shape = tuple(found.shape)
        raise BenchError(f"{what} {shape}, {_type(found)}: should be one whole number for an image")
    _same_count(what, len(found), images)
    if what == "groups":
        return found.unique(return_inverse=True)[1]
    found = found.long()
    low, high = int(found.min()), int(found.max())
    if low < 0 or high >= MOST_CLASSES:
        raise BenchError(f"labels are from {low} to {high}: should number the classes from 0")
    return found


def _same_count(what: str, count: int, images: Images) -> None:
    if count != len(images):
        raise BenchError(
            f"{count} {what} and {len(images)} images: should be as many, the first of the one "
            "belonging to the first of the other"
        )


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _span(tensor: Tensor) -> tuple[float, float]:
    """The least and the largest value, read part by part; NaN where one is none."""
    ends = torch.stack([torch.stack(part.float().aminmax()) for part in tensor.split(AT_ONCE)])
    return float(ends[:, 0].amin()), float(ends[:, 1].amax())
