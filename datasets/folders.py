"""Images in folders: found, decoded to one size, dealt to parts."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image, ImageOps
from torch import Tensor
from tqdm import tqdm

from smashbench.datasets.base import DatasetError

SUFFIXES = {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".webp"}
FORMATS = ("BMP", "JPEG", "PNG", "PPM", "WEBP")
"""What a file may be, whatever its name: Pillow would hand others to programs such as
Ghostscript."""


def version() -> str:
    """Of what ``read_images`` does to files: its code and Pillow's."""
    return f"{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]} {PIL.__version__}"


def is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def by_folder(folder: Path) -> dict[str, list[Path]]:
    """The images of every folder below ``folder`` that holds any, by the folder's path; sorted.

    Raises:
        DatasetError: a folder holds neither images nor folders, or cannot be read; images lie in
            ``folder`` itself; two folders have one name, such as a person's of a ``train`` and of
            a ``val`` folder, who would become two classes.
    """
    found: dict[str, list[Path]] = {}
    seen: set[str] = set()

    def refuse(error: OSError) -> None:
        raise DatasetError(f"{error.filename} cannot be read ({error.strerror})")

    for place, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if (real := os.path.realpath(place)) in seen:  # links may lead in circles
            folders.clear()
            continue
        seen.add(real)
        images = sorted(path for name in names if is_image(path := Path(place, name)))
        if images:
            found[str(Path(place).relative_to(folder))] = images
        elif not folders:
            raise DatasetError(f"{place} holds no image ({', '.join(sorted(SUFFIXES))})")
    if "." in found:
        raise DatasetError(f"images such as {found['.'][0]} are in no folder of a class")
    last: dict[str, str] = {}
    for name in sorted(found):
        if (other := last.setdefault(Path(name).name, name)) != name:
            raise DatasetError(f"{folder}: {other} and {name} have one name; merge or rename them")
    return dict(sorted(found.items()))


def read_images(paths: Sequence[Path], size: int, title: str) -> Tensor:
    """Images (N, 3, size, size), uint8: turned upright, grey ones with three equal channels;
    another shape is scaled to a short side of ``size`` (Lanczos) and cut out in the middle.

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
        with Image.open(path, formats=FORMATS) as file:
            if file.mode[0] in "IF":
                raise ValueError("more than 8 bits a channel, convert it")
            image = _upright(file).convert("RGB")
    except (OSError, SyntaxError, ValueError, NotImplementedError) as error:
        raise DatasetError(f"{path} is not a readable image ({error}); replace it") from None
    except Image.DecompressionBombError as error:
        raise DatasetError(f"{path}: {error}") from None
    image = ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)
    return np.array(image).transpose(2, 0, 1)  # a copy, which may be written to


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # a damaged EXIF block can raise anything; the pixels are fine
        return image
