"""What a data set gives, as far as ``Split.build`` does not check it."""

from collections.abc import Iterator

import torch

from smashbench.datasets import Part, Split

ATTRIBUTED = 10
"""Fewest images of a part that have attributes, where any has."""
DIMENSIONS = {"groups": 1, "identities": 1, "attributes": 2}
"""Of the facts about images."""


def mistakes_in(split: Split) -> Iterator[str]:
    """Why no trial could be finished on these images: a line for everything that is wrong.

    Everything is found before anything is trained: a victim whose groups cannot be read back could
    never be reported, and mending the data set would outdate it.
    """
    for name in ("train", "val", "aux", "test"):
        part: Part = getattr(split, name)
        if part.x.dtype != torch.float32:
            kind = str(part.x.dtype).removeprefix("torch.")
            yield f"part {name!r} has images of {kind}: float32 in [0, 1], or uint8"
        if part.x.shape[1:] != split.shape:
            shape = tuple(part.x.shape[1:])
            yield f"part {name!r} has images of {shape}, others of {split.shape}"
        for what, dimensions in DIMENSIONS.items():
            facts = getattr(part, what)
            if facts is not None and (facts.dtype != torch.int64 or facts.ndim != dimensions):
                kind = str(facts.dtype).removeprefix("torch.")
                wanted = "(N,)" if dimensions == 1 else "(N, A)"
                yield f"part {name!r} has {what} {tuple(facts.shape)}, {kind}: {wanted}, int64"


def too_few(split: Split) -> Iterator[str]:
    """A line for every part of which too few images have attributes, where any has, and one for
    test images of a single group: what an interval spans is how groups differ. Those that are
    classified are looked at by themselves, since accuracy is theirs alone."""
    test = split.test
    groups = torch.arange(len(test.x)) if test.groups is None else test.groups
    for counted, kind in ((groups, ""), (groups[test.y >= 0], ", or those with a class,")):
        if len(counted.unique()) < 2:
            yield (
                f"the images of part 'test'{kind} are one, or of one group, so that no interval "
                "can be given: test on images of two groups or more"
            )
            break
    for name in ("aux", "test"):
        attributes = getattr(split, name).attributes
        if attributes is None:
            continue
        if (known := int((attributes >= 0).all(1).sum())) < ATTRIBUTED:
            yield (
                f"part {name!r} has {known} images with attributes, too few to infer any: give "
                f"{ATTRIBUTED} or more, or None for all"
            )
