"""Patches of ten photographs that every scikit-image wheel carries: real images, no download."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from smashbench.datasets.base import Dataset, DatasetError, Images, Part, Seed, Split

PHOTOS = {
    "astronaut": "astronaut.png",
    "chelsea": "chelsea.png",
    "coffee": "coffee.png",
    "rocket": "rocket.jpg",
    "hubble_deep_field": "hubble_deep_field.jpg",
    "immunohistochemistry": "ihc.png",
    "retina": "retina.jpg",
    "brick": "brick.png",
    "grass": "grass.png",
    "gravel": "gravel.png",
}
SHORT_SIDE, REGION, PATCH = 384, 64, 32
SHARES = {"train": 0.45, "val": 0.10, "aux": 0.25, "test": 0.20}
FLAT = 5
"""A patch whose values lie less far apart, of 255 in every channel, is nearly of one colour."""


class Photos(Dataset):
    """32x32 patches of ten photographs shipped with scikit-image; the class is the photograph.

    Each photograph is scaled to a short side of 384 pixels and cut into regions of 64x64. A
    region belongs to one part only, so no test pixel was ever trained on. Regions with a patch of
    nearly one colour are left out (eight, of the astronaut and of the retina): black borders look
    the same wherever they are cut, and the attacker would own test images. Patches are drawn at
    random places inside the regions of their part, so patches of one region may overlap: it is
    their group.

    Args:
        train, val, aux, test: images per part, multiples of ten (the classes are balanced).
        seed: seed of the regions' shares and of the places.
    """

    def __init__(
        self,
        *,
        train: Images = 4000,
        val: Images = 500,
        aux: Images = 2500,
        test: Images = 1000,
        seed: Seed = 0,
    ) -> None:
        self.train, self.val, self.aux, self.test, self.seed = train, val, aux, test, seed

    def load(self, root: Path | None = None) -> Split:
        sizes = {"train": self.train, "val": self.val, "aux": self.aux, "test": self.test}
        if odd := {name: n for name, n in sizes.items() if n % len(PHOTOS)}:
            raise DatasetError(f"photos has ten balanced classes: use multiples of ten, not {odd}")
        patches: dict[str, list[np.ndarray]] = {name: [] for name in SHARES}
        regions: dict[str, list[np.ndarray]] = {name: [] for name in SHARES}
        for label, filename in enumerate(PHOTOS.values()):
            rng = np.random.default_rng([self.seed, label])
            image = _photo(filename)
            for name, corners in _regions(image, rng).items():
                n = sizes[name] // len(PHOTOS)
                patches[name].append(_cut(image, corners, n, rng))
                regions[name].append(_numbers(corners, label)[np.arange(n) % len(corners)])
        labels = torch.arange(len(PHOTOS))
        parts = {
            name: Part(
                _to_tensor(np.concatenate(cut)),
                labels.repeat_interleave(len(cut[0])),
                groups=torch.from_numpy(np.concatenate(regions[name])),
            )
            for name, cut in patches.items()
        }
        return Split.build(parts, classes=len(PHOTOS))


def _photo(filename: str) -> np.ndarray:
    """(H, W, 3) uint8. Pillow's resize is integer arithmetic: the same bytes everywhere."""
    path = files("skimage") / "data" / filename
    try:
        with path.open("rb") as stream:
            image = Image.open(stream).convert("RGB")
    except OSError as error:
        raise DatasetError(
            f"photos: {path} cannot be read ({error}); reinstall scikit-image"
        ) from None
    scale = SHORT_SIDE / min(image.size)
    width, height = (max(SHORT_SIDE, round(side * scale)) for side in image.size)
    return np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))


def _regions(image: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Deals the 64-pixel grid's corners (n, 2), but those of flat regions, to the parts."""
    grid = np.stack(
        np.meshgrid(
            *(np.arange(side // REGION) * REGION for side in image.shape[:2]), indexing="ij"
        ),
        axis=-1,
    ).reshape(-1, 2)
    grid = rng.permutation(grid[_least_spread(image, grid) >= FLAT])
    cuts = np.round(np.cumsum(list(SHARES.values()))[:-1] * len(grid)).astype(int)
    return dict(zip(SHARES, np.split(grid, cuts), strict=True))


def _least_spread(image: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """How far (n,) the values of the flattest patch of each region lie apart, in the channel in
    which they lie farthest apart."""
    from scipy.ndimage import maximum_filter, minimum_filter  # here: a dry run needs none of it

    window = {"size": (PATCH, PATCH, 1), "origin": (-(PATCH // 2), -(PATCH // 2), 0)}
    spread = (maximum_filter(image, **window) - minimum_filter(image, **window)).max(2)
    places = np.arange(REGION - PATCH + 1)
    rows, columns = (side[:, None] + places for side in corners.T)
    return spread[rows[:, :, None], columns[:, None, :]].min((1, 2))


def _numbers(corners: np.ndarray, label: int) -> np.ndarray:
    """A number (n,) for every region, of all photographs, from its corner."""
    rows, columns = (corners // REGION).T
    return (1000 * label + rows) * 1000 + columns


def _cut(image: np.ndarray, corners: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 32, 32, 3) patches, spread evenly over the regions."""
    corner = corners[np.arange(n) % len(corners)]
    place = corner + rng.integers(0, REGION - PATCH + 1, size=(n, 2))
    windows = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH), axis=(0, 1))
    return windows[place[:, 0], place[:, 1]].transpose(0, 2, 3, 1)


def _to_tensor(images: np.ndarray) -> torch.Tensor:
    """(N, H, W, 3) uint8 to (N, 3, H, W) float32 in [0, 1]."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float() / 255
