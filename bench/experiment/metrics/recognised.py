"""Re-identification by features: whether an evaluator recognises an image in its reconstruction."""

from hashlib import sha256
from typing import TYPE_CHECKING

from smashbench.bench.experiment.metrics.collective import Collective

if TYPE_CHECKING:
    from torch import Tensor

SIDE, STEP, CELLS = 32, 2, 4
"""Images are brought to this side at most; patches are this far apart; features are averaged in so
many cells a side."""
PATCHES, FILTERS = 5_000, 64
"""Patches that the evaluator learns from, and how many of them become its filters."""
CONTRAST, SHRINKAGE = 0.01, 0.5
"""Added to the variance of a patch, and to the eigenvalues of the covariance of patches: what is
flatter, or varies less, counts for less."""
SEED = 0
AT_ONCE = 1000
"""Reconstructions that are compared with all images at once."""
TINY = 1e-6


def rank_1_features(x: "Tensor", guess: "Tensor") -> "Tensor":
    """Whether (N,), 0 or 1, the true one of N images x (N, C, H, W) is the most similar to its
    reconstruction, in the features of an evaluator; among k that are equally similar, 1 / k.
    Chance is 1 / N.

    The evaluator is that of Coates, Ng and Lee (AISTATS 2011): patches, a third of the image a
    side, are normalised for brightness and contrast, whitened, compared with 64 whitened patches
    drawn at random, and averaged over 4x4 cells, positive and negative parts apart. It learns from
    the N images alone, which whoever looks for the right one among them has, and on which no
    victim was trained. Features of images and of reconstructions are standardised, each by their
    own means and deviations, and compared by the cosine. Nothing of it depends on labels.
    """
    return _among(x, guess, 1)


def rank_5_features(x: "Tensor", guess: "Tensor") -> "Tensor":
    """The same for the five most similar images. Chance is 5 / N."""
    return _among(x, guess, 5)


def _among(x: "Tensor", guess: "Tensor", best: int) -> "Tensor":
    """The chance (N,) that the true image is among so many, with ties drawn at random."""
    key = tuple(_digest(images) for images in (x, guess))
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = _places(x, guess)
    before, equal = _LAST[key]
    return ((best - before) / equal).clamp(0, 1)


_LAST: "dict[tuple[str, ...], tuple[Tensor, Tensor]]" = {}
"""What was compared last, since two metrics are made of it."""


def _digest(images: "Tensor") -> str:
    return sha256(images.cpu().numpy().tobytes()).hexdigest() + str(tuple(images.shape))


def _places(x: "Tensor", guess: "Tensor") -> "tuple[Tensor, Tensor]":
    """How many (N,) images are more similar to each reconstruction than the true one is, and how
    many are as similar, it included."""
    import torch  # here: reports need no PyTorch

    x, guess = (_small(images) for images in (x, guess))
    filters = _filters(x)
    images, made = (_standardised(_features(each, filters)) for each in (x, guess))
    before, equal = [], []
    for start in range(0, len(x), AT_ONCE):
        alike = made[start : start + AT_ONCE] @ images.mT
        true = alike[:, start:].diagonal()[:, None]
        before.append((alike > true).sum(1))
        equal.append((alike == true).sum(1))
    return torch.cat(before), torch.cat(equal)


def _small(images: "Tensor") -> "Tensor":
    from torch.nn.functional import adaptive_avg_pool2d

    height, width = images.shape[2:]
    return adaptive_avg_pool2d(images, (min(height, SIDE), min(width, SIDE)))


def _filters(x: "Tensor") -> "Tensor":
    """Filters (FILTERS, C, k, k), whose products with a patch are those of whitened patches."""
    import torch

    channels, height, width = x.shape[1:]
    side = max(min(height, width, 2), min(height, width) // 3)
    generator = torch.Generator().manual_seed(SEED)
    which, top, left = (
        torch.randint(end, (PATCHES,), generator=generator).to(x.device)
        for end in (len(x), height - side + 1, width - side + 1)
    )
    reach = torch.arange(side, device=x.device)
    rows, columns = (top[:, None] + reach)[:, :, None], (left[:, None] + reach)[:, None, :]
    patches = x[which[:, None, None], :, rows, columns].movedim(3, 1).flatten(1)
    patches = patches - patches.mean(1, keepdim=True)
    patches /= (patches.var(1, correction=0, keepdim=True) + CONTRAST).sqrt()
    values, vectors = torch.linalg.eigh(patches.mT.double() @ patches.double() / PATCHES)
    whitening = (vectors * (values.clamp_min(0) + SHRINKAGE).rsqrt()) @ vectors.mT
    drawn = patches[:FILTERS].double() @ whitening
    drawn = drawn / drawn.norm(dim=1, keepdim=True).clamp_min(TINY) @ whitening
    return (drawn - drawn.mean(1, keepdim=True)).to(x).reshape(-1, channels, side, side)


def _features(x: "Tensor", filters: "Tensor") -> "Tensor":
    """Activations (N, 2 * FILTERS * cells) of images x (N, C, H, W)."""
    import torch
    from torch.nn.functional import adaptive_avg_pool2d, conv2d

    step = STEP if min(x.shape[2:]) >= SIDE // 2 else 1
    ones = torch.full_like(filters[:1], 1 / filters[0].numel())
    parts = []
    for images in x.split(AT_ONCE // 4):
        mean, square = (conv2d(each, ones, stride=step) for each in (images, images.square()))
        contrast = ((square - mean.square()).clamp_min(0) + CONTRAST).sqrt()
        found = conv2d(images, filters, stride=step) / contrast
        found = torch.cat((found.clamp_min(0), (-found).clamp_min(0)), 1)
        height, width = (min(CELLS, n) for n in found.shape[2:])
        parts.append(adaptive_avg_pool2d(found, (height, width)).flatten(1))
    return torch.cat(parts)


def _standardised(features: "Tensor") -> "Tensor":
    """Of length one each; zero where there is nothing to tell them apart by."""
    features = features - features.mean(0)
    features = features / features.std(0, correction=0).clamp_min(TINY)
    return features / features.norm(dim=1, keepdim=True).clamp_min(TINY)


RANK_1_FEATURES = Collective(
    name="rank_1_features",
    label="rank-1 by features",
    better="lower",
    bounds=(0.0, 1.0),
    digits=2,
    score=rank_1_features,
)
RANK_5_FEATURES = Collective(
    name="rank_5_features",
    label="rank-5 by features",
    better="lower",
    bounds=(0.0, 1.0),
    digits=2,
    score=rank_5_features,
    brief=False,
)
