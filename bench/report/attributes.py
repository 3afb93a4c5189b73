"""Attributes that are inferred from releases: estimates of a row."""

import numpy as np

from smashbench.bench.report.images import of_some
from smashbench.bench.report.statistics import Estimate, means

LABELS = {
    "attribute": "attribute inferred",
    "attribute_over_prediction": "beyond the prediction",
}
"""Columns, and what people read above them."""


def attribute_estimates(
    scores: dict[str, np.ndarray], groups: np.ndarray | None
) -> dict[str, Estimate]:
    """The share of attributes that are inferred from releases, and how much more that is than what
    is inferred from the prediction alone, paired image by image; empty where there are none.

    Args:
        scores: (victims, images) each, by name.
        groups: (images,) ids, or None.
    """
    if not {"attribute_from_release", "attribute_from_prediction"} <= scores.keys():
        return {}
    ours = scores["attribute_from_release"].astype(np.float64)
    values = np.stack([ours, ours - scores["attribute_from_prediction"]])
    tables = of_some(values[:, :, None], groups, scores.get("attributed"))
    return dict(zip(LABELS, means(tables, [(0.0, 1.0), (-1.0, 1.0)]), strict=True))
