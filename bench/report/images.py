"""The test images: those that come in groups, or of which some alone count, have values whose
means and their intervals are right."""

from typing import NamedTuple

import numpy as np


class Images(NamedTuple):
    """The test images that a row is about."""

    number: int
    groups: np.ndarray | None
    """(number,) ids: images of one group are not independent; None where all are."""


def by_group(values: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Values (k, seeds, repeats, groups) with the means of values (k, seeds, repeats, images).

    Images of one group are alike, so that errors of their mean are those of a sample of groups
    (Cameron and Miller, 2015, "A practitioner's guide to cluster-robust inference"). The mean over
    images is a ratio, of what the groups add up to and their sizes; the value of a group is that
    ratio's linear part, mean + G / N sum_i (x_i - mean) over its n of N images (Cochran, 1977,
    section 2.11), which for G groups of one size is the mean of the group.

    Args:
        values: of every image.
        groups: (images,) ids; None where images are independent: ``values`` as they are.

    >>> by_group(np.array([[[[1.0, 3.0, 8.0]]]]), np.array([7, 7, 9])).round(3)
    array([[[[1.333, 6.667]]]])
    """
    if groups is None:
        return values
    order = np.argsort(groups, kind="stable")
    starts = np.unique(groups[order], return_index=True)[1]
    mean = values.mean((1, 2, 3), keepdims=True)
    sums = np.add.reduceat((values - mean)[..., order], starts, axis=-1)
    return mean + sums * (len(starts) / len(groups))


def of_some(values: np.ndarray, groups: np.ndarray | None, masks: np.ndarray | None) -> np.ndarray:
    """``by_group`` of the values (k, seeds, repeats, images) of the images that count, alone.

    Args:
        values: of every image.
        groups: (images,) ids, or None.
        masks: (seeds, images), all rows alike, 1 for an image that counts; None where all do.
    """
    if masks is None:
        return by_group(values, groups)
    counts = masks[0] > 0
    return by_group(values[..., counts], None if groups is None else groups[counts])


def spread(values: np.ndarray, masks: np.ndarray | None) -> np.ndarray:
    """Values (..., seeds, images) of all images whose means over images are those over the images
    that count: their mean m for what does not, and m + N / n (x - m) for n of N that do. For draws
    that are paired with those of errors, which are of all images; intervals are those of
    ``of_some``, for what does not count is no evidence.

    Args:
        values: of every image.
        masks: (seeds, images), all rows alike, 1 for an image that counts; None where all do:
            ``values`` as they are.

    >>> spread(np.array([[1.0, 3.0, 9.0, 9.0]]), np.array([[1.0, 1.0, 0.0, 0.0]]))
    array([[0., 4., 2., 2.]])
    """
    if masks is None:
        return values
    mask = masks[0].astype(np.float64)
    mean = (values @ mask / mask.sum())[..., None]
    return mean + mask * (values - mean) * (len(mask) / mask.sum())
