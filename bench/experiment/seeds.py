"""Seeds of the stages, derived from one root, so that adding a stage shifts no other."""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smashbench.datasets import Split


def seed_for(*names: str | int) -> int:
    """A 63-bit seed for a stage, e.g. ``seed_for("attack", "decoder", 0)``.

    >>> seed_for("train", 0) == seed_for("train", 0) != seed_for("train", 1)
    True
    """
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def release_seed(split: "Split", *seeds: int) -> int:
    """Of the noise in the releases that are attacked. It depends on the images, so that an
    attacker who knows this function cannot draw the same noise and take it away."""
    return seed_for("release", *seeds, split.hash)
