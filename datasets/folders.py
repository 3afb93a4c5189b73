"""Images in folders: found, decoded to one size, dealt to parts."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from datasets.base import DatasetError

SUFFIXES = {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp"}


def is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def by_folder(folder: Path) -> dict[str, list[Path]]:
    """The images of every folder below ``folder`` that holds any, by the folder's path; sorted.

    Raises:
        DatasetError: a folder holds neither images nor folders.
    """
    found: dict[str, list[Path]] = {}
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        images = sorted(path for name in names if is_image(path := Path(place, name)))
        if images:
            found[str(Path(place).relative_to(folder))] = images
        elif not folders:
            raise DatasetError(f"{place} holds no image ({', '.join(sorted(SUFFIXES))})")
    return dict(sorted(found.items()))


def read_images(paths: Sequence[Path], size: int, title: str) -> Tensor:
    """Images (N, 3, size, size), uint8: grey ones get three equal channels; another shape is
    scaled to a short side of ``size`` (Lanczos) and cut out in the middle.

    Raises:
        DatasetError: names a file that is no readable image.
    """
    images = torch.empty(len(paths), 3, size, size, dtype=torch.uint8)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        decoded = pool.map(lambda path: _read(path, size), paths)
        bar = tqdm(decoded, desc=f"decoding {title}", total=len(paths), disable=None, leave=False)
        for number, image in enumerate(bar):
            images[number] = torch.from_numpy(image)
    return images


def _read(path: Path, size: int) -> np.ndarray:
    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DatasetError(f"{path} is not a readable image ({error}); replace it") from None
    if image.size != (size, size):
        scale = size / min(image.size)
        width, height = (max(size, round(side * scale)) for side in image.size)
        left, top = (width - size) // 2, (height - size) // 2
        image = image.resize((width, height), Image.Resampling.LANCZOS)
        image = image.crop((left, top, left + size, top + size))
    return np.array(image).transpose(2, 0, 1)  # a copy, which may be written to
