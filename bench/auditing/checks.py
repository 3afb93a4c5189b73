"""Whether features and images can be audited at all, and what is odd about them."""

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from smashbench.bench.auditing.pairs import AT_ONCE, Images, Pairs
from smashbench.bench.errors import BenchError

COMPARED = 600
"""Most pairs that ``relation`` looks at."""
SHUFFLES = 199
"""Of the pairs, each a dealing at random."""
MOST_ALONE = 0.5
"""Share of images that are the only one of their kind from which kinds are not looked at."""
UNITS = 1e-15, 1e15
"""Between these, the unit in which features are sent hides nothing: squares of them are sound."""
USUAL = 0.9
"""Share of the magnitudes that are not 0 up to which features are of usual size."""
ODD, HIDING = 100.0, 10_000.0
"""How many times that size some may reach: more is said, and from the second on attacks, which
measure in spreads, see nothing else."""
SAMPLED = 2**20
"""About so many magnitudes are looked at."""
NUMBERS = 2**24
"""Most numbers that are looked at at once: 64 MiB."""
LESS_ALIKE = 1.05
"""Variance of releases of one image, over that across images, up to which it may be chance."""
RELATED = 0.02
"""Share of dealings at random that may be as related as the pairs: more, and they are not."""


def first_equal(images: Images) -> Tensor:
    """The first image (N,) that each equals in 8 bits a pixel: itself where it is the first.

    Raises:
        BenchError: all of them are equal.
    """
    seen: dict[bytes, int] = {}
    first = torch.tensor([seen.setdefault(each, n) for n, each in enumerate(images.digests())])
    if len(seen) == 1:
        raise BenchError(f"images: all {len(images)} are equal, there is nothing to tell apart")
    return first


def check_features(features: Tensor, numbers: Tensor | None = None) -> list[str]:
    """What is odd about features (N, ...), in sentences. Their images have these numbers (N,), or
    those from 0.

    Raises:
        BenchError: some are not finite, or none differs from image to image; or they are so large
            or so small that squares of them, which attacks need, are not what they should be; or
            few are so much larger than the others that attacks see nothing else.
    """
    low = high = torch.zeros(())
    sampled = []
    looked_at, generator = min(1.0, SAMPLED / features.numel()), torch.Generator().manual_seed(0)
    at_once = max(1, min(AT_ONCE, NUMBERS // features[0].numel()))
    for number, part in enumerate(features.split(at_once)):
        rows = part.float().flatten(1)
        finite = rows.isfinite().all(1)
        if not bool(finite.all()):
            row = number * at_once + int((~finite).nonzero()[0])
            row = row if numbers is None else int(numbers[row])
            raise BenchError(
                f"features of image {row} are not finite (NaN or infinity): what did the encoder "
                "do there? Leave such images out, or mend it"
            )
        least, most = rows.amin(0), rows.amax(0)
        low = torch.minimum(low, least) if number else least
        high = torch.maximum(high, most) if number else most
        chosen = torch.randint(
            rows.numel(), (1 + int(looked_at * rows.numel()),), generator=generator
        )
        sampled.append(rows.flatten()[chosen.to(rows.device)].abs())
    constant = int((low == high).sum())
    if constant == len(low):
        raise BenchError(
            "features are the same for every image: the encoder ignores its input, or the wrong "
            "array was saved"
        )
    reach = float(torch.maximum(low.abs(), high.abs()).amax())
    if not UNITS[0] <= reach <= UNITS[1]:
        how = "divide" if reach > 1 else "multiply"
        raise BenchError(
            f"features reach {reach:.0e}: squares of such numbers are lost, and attacks would fail "
            f"for that alone; {how} them all by one number, so that they reach about 1"
        )
    notes = _outliers(reach, torch.cat(sampled))
    if constant / len(low) > 0.1:
        share = f"{constant} of {len(low)} features ({constant / len(low):.0%})"
        notes.append(f"{share} are the same for every image.")
    return notes


def _outliers(reach: float, sampled: Tensor) -> list[str]:
    """What is said of features that reach so far, with magnitudes (n,) of a sample of them.

    Raises:
        BenchError: a few of them hide the others.
    """
    sampled = sampled[sampled > 0]
    usual = float(sampled.kthvalue(max(1, int(USUAL * len(sampled)))).values) if len(sampled) else 0
    if not usual or reach <= ODD * usual:
        return []
    what = f"features reach {reach:.0e}, where {USUAL:.0%} of them are below {usual:.1e}"
    if reach > HIDING * usual:
        raise BenchError(
            f"{what}: attacks measure in spreads, and would see nothing else. Is it a mask? "
            "Replace such values by 0, or clip them, as an attacker would"
        )
    return [
        f"{what[0].upper()}{what[1:]}: attacks measure in spreads, and may see less of the others. "
        "Audit such features clipped, too."
    ]


def relation(z: Tensor, x: Tensor, kinds: Tensor | None = None) -> float:
    """The share of dealings at random whose distance correlation is as high as that of the pairs:
    about 0 for features z (n, ...) of images x (n, C, H, W), and anything from 0 to 1 where the
    order of one is not the order of the other. With ``kinds`` (n,) images are dealt among those of
    their kind alone, so that an order which agrees in kinds is told from the true one.

    Distance correlation is 0 in the population only for independent pairs, whatever they depend
    by (Szekely, Rizzo and Bakirov, 2007); here of standardised features and of images of 8x8
    pixels.
    """
    squares = torch.zeros(len(z), len(z), device=z.device)
    for part in z.flatten(1).split(max(1, NUMBERS // len(z)), 1):
        part = part.float()
        part = (part - part.mean(0)) / part.std(0).clamp_min(1e-6)
        squares += torch.cdist(part, part).square()
    small = adaptive_avg_pool2d(x, 8).flatten(1)
    a, b = (_centred(each) for each in (squares.sqrt(), torch.cdist(small, small)))
    generator = torch.Generator().manual_seed(0)
    found = float((a * b).sum())
    as_high = 0
    for _ in range(SHUFFLES):
        order = torch.randperm(len(b), generator=generator)
        if kinds is not None:
            order = _among(kinds, order)
        as_high += float((a * b[order][:, order]).sum()) >= found
    return (as_high + 1) / (SHUFFLES + 1)


def _among(kinds: Tensor, order: Tensor) -> Tensor:
    """The order (n,) at random with every place given to one of its kind.

    >>> _among(torch.tensor([1, 0, 1, 0]), torch.tensor([3, 2, 0, 1])).tolist()
    [2, 3, 0, 1]
    """
    dealt = torch.empty_like(order)
    dealt[kinds.argsort(stable=True)] = order[kinds[order].argsort(stable=True)]
    return dealt


def _centred(distances: Tensor) -> Tensor:
    rows = distances.mean(0)
    return distances - rows - rows[:, None] + rows.mean()


def check_order(pairs: Pairs, index: Tensor, gigabytes: float) -> None:
    """Refuses pairs that do not belong together: of any images, and of images of one class or of
    one group, if these are known.

    Args:
        pairs: with features.
        index: of the images that are looked at, at most ``COMPARED``.
        gigabytes: that their features may take; of fewer images, if need be.

    Raises:
        BenchError: features and images are no more related than when dealt at random.
    """
    assert pairs.features is not None
    fit = int(gigabytes * 2**28 / pairs.features[0].numel())  # four bytes each
    index = index[: min(COMPARED, fit)]
    z = pairs.take_features(index)
    if pairs.repeated:
        _check_releases(z)
    z, x = z[:, 0] if pairs.repeated else z, pairs.images.take(index)
    kinds = {"class": pairs.labels, "group": pairs.groups, "folder": pairs.images.folders}
    known = {name: kind[index] for name, kind in kinds.items() if kind is not None}
    told = {name: kind for name, kind in known.items() if _share_alone(kind) < MOST_ALONE}
    for name, kind in ({"": None} | told).items():
        share = relation(z, x, kind)
        if share > RELATED:
            among = f" within each {name}" if name else ""
            nothing = f"no more than its {name}" if name else "nothing of the images"
            raise BenchError(
                "features and images do not belong together: in this order they are no more "
                f"related than in random orders{among} ({share:.0%} of {SHUFFLES} were as related, "
                f"over {len(index)} pairs). Is their order the same? If it is, and the features "
                f"tell {nothing}, say --trust-order"
            )


def _check_releases(z: Tensor) -> None:
    """Refuses (n, R, ...) where what is said to be R releases of one image differs more than
    releases of different images: noise adds to both, images to the latter alone."""
    within, between = (float(z.var(axis).mean()) for axis in (1, 0))
    if z.shape[1] > 1 and within > LESS_ALIKE * between:
        raise BenchError(
            f"--repeated: the {z.shape[1]} releases of an image differ more than those of "
            f"different images (variances {within:.2g} and {between:.2g}). Does the second axis "
            "count channels? Then leave it out; if it counts releases, say --trust-order"
        )


def _share_alone(kinds: Tensor) -> float:
    """The share of things that are the only one of their kind."""
    _, each, counts = kinds.unique(return_inverse=True, return_counts=True)
    return float((counts[each] == 1).float().mean())
