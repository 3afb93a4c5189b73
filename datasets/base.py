"""What a data set is: four disjoint, class-stratified parts and a hash of their content."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import torch
from annotated_types import Ge, Le, Lt
from torch import Tensor

Seed = Annotated[int, Ge(0), Lt(2**63)]
"""Of what is random about a data set."""
Images = Annotated[int, Ge(10), Le(10_000_000)]
"""Of one part of a made-up or cut-out set."""
PerClass = Annotated[int, Ge(0), Le(10_000_000)]
"""Images that are used of every class, or of a part; 0 for all."""


class DatasetError(Exception):
    """The data are missing, altered, or too few; the message says what to do."""


class Part(NamedTuple):
    """Images of one part, and what is known of each.

    Args:
        x: (N, C, H, W), float32 in [0, 1].
        y: labels (N,), int64; in ``aux`` and ``test`` -1 for an image of none of the classes, which
            is attacked and not classified.
        groups: (N,), int64: images of one group are not independent (patches of one region, say);
            None where all are.
        identities: (N,), int64: who is shown; None where nobody is.
        attributes: (N, A), int64: what else is known; None where nothing is. An image of which one
            is -1 has none.
    """

    x: Tensor
    y: Tensor
    groups: Tensor | None = None
    identities: Tensor | None = None
    attributes: Tensor | None = None

    def to(self, device: torch.device | str) -> "Part":
        known = (None if each is None else each.to(device) for each in self[2:])
        return Part(self.x.to(device), self.y.to(device), *known)


UNCLASSIFIED = ("aux", "test")
"""Parts that may have images of none of the classes."""
FACTS = ("groups", "identities", "attributes")
"""What a part may know beside images and labels."""


class Prior(NamedTuple):
    """The distribution that images were drawn from, where it is known: a Gaussian mixture over
    their P = C H W pixels, float64."""

    weights: Tensor
    """(K,)"""
    means: Tensor
    """(K, P)"""
    covariances: Tensor
    """(K, P, P)"""


def scaled(x: Tensor, name: str) -> Tensor:
    """Images in 0..255, uint8, as float32 in [0, 1]; ``name`` depends on what they are and is for
    functions that keep them."""
    return x.float().div_(255)


def _shared(one: Tensor, other: Tensor) -> int:
    """How many of these images are also among the others, to the last bit."""

    def digests(x: Tensor) -> list[bytes]:
        return [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in x.numpy()]

    known = set(digests(other))
    return sum(digest in known for digest in digests(one))


@dataclass(frozen=True)
class Split:
    """The four disjoint parts, the number of classes, and a hash of all of it.

    ``train`` trains the victim, ``val`` watches it, ``aux`` is the attacker's, and ``test`` is
    where utility and reconstructions are scored, and nothing else: utility on its images that
    have a class, reconstructions on all.
    """

    train: Part
    val: Part
    aux: Part
    test: Part
    classes: int
    hash: str
    prior: Prior | None = None
    """What the images were drawn from, for a made-up world; only the harness sees it."""
    overlap: int = 0
    """How many images of ``aux`` the victim trains on, too, to the last bit."""

    @classmethod
    def build(
        cls,
        parts: Mapping[str, Part],
        classes: int,
        prior: Prior | None = None,
        *,
        scale: Callable[[Tensor, str], Tensor] = scaled,
    ) -> "Split":
        """Checks labels and ranges once and hashes names, images and labels in a fixed order.

        Images may come as uint8 in 0..255: hashed as such, which is faster, then scaled, by
        ``scale`` as ``scaled`` does it.
        """
        overlap = _shared(parts["aux"].x, parts["train"].x)
        digest, ready = hashlib.sha256(), {}
        for name in ("train", "val", "aux", "test"):
            part = parts[name]
            x, y = part.x, part.y
            in_range = x.dtype == torch.uint8 or not len(x) or (x.min() >= 0 and x.max() <= 1)
            if not len(x):
                raise DatasetError(f"part {name!r} is empty: too few images to deal to four parts")
            if x.ndim != 4 or x.shape[1] not in (1, 3):
                shape = tuple(x.shape)
                raise DatasetError(f"part {name!r} has images {shape}: (N, C, H, W), C 1 or 3")
            if y.dtype != torch.int64 or y.shape != x.shape[:1]:
                raise DatasetError(f"part {name!r} has labels {tuple(y.shape)}, {y.dtype}: int64")
            if not in_range:
                raise DatasetError(f"part {name!r} has pixels outside [0, 1]")
            least = -1 if name in UNCLASSIFIED else 0
            if y.min() < least or y.max() >= classes:
                raise DatasetError(f"part {name!r} has a label outside {least}..{classes - 1}")
            if name == "test" and y.max() < 0:
                raise DatasetError("part 'test' has no image of any class to score utility on")
            digest.update(f"{name}{tuple(x.shape)}".encode())
            digest.update(np.ascontiguousarray(x.numpy()).data)
            digest.update(np.ascontiguousarray(y.numpy()).data)
            for what, known in zip(FACTS, part[2:], strict=True):
                if known is not None:
                    if len(known) != len(y):
                        counts = f"{len(known)} {what} of {len(y)} images"
                        raise DatasetError(f"part {name!r} has {counts}")
                    digest.update(what.encode())
                    digest.update(np.ascontiguousarray(known.numpy()).data)
            if x.dtype == torch.uint8:
                x = scale(x, digest.hexdigest()[:16])
            ready[name] = part._replace(x=x)
        return cls(
            **ready, classes=classes, hash=digest.hexdigest()[:16], prior=prior, overlap=overlap
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        c, h, w = self.train.x.shape[1:]
        return c, h, w

    def to(self, device: torch.device | str) -> "Split":
        moved = {name: getattr(self, name).to(device) for name in ("train", "val", "aux", "test")}
        return replace(self, **moved)


class Dataset(ABC):
    """A data set. The constructor stores its keyword-only options; ``load`` does the work.

    Deterministic: the same options give the same ``Split.hash`` on every machine.
    """

    needs_data: ClassVar[bool] = False
    """Whether files must be found below a data folder (``--data`` or ``SMASHBENCH_DATA``)."""

    @abstractmethod
    def load(self, root: Path | None) -> Split:
        """Loads the four parts on the CPU.

        Args:
            root: the data folder; unused by data sets that need none.

        Raises:
            DatasetError: files are missing or altered, or the options ask for too many images.
        """

    def fetch(self, root: Path) -> None:  # noqa: B027  (most data sets have nothing to fetch)
        """Downloads the files into ``root``."""
