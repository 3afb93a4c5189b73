"""Labels beside points: in their frame, off each other and off the marks."""

import itertools

import numpy as np
import pytest

from smashbench.bench.report.labels import Box, Label, placed

FRAME = Box(0, 0, 300, 300)


def overlap(a: Box, b: Box) -> float:
    width = min(a.right, b.right) - max(a.left, b.left)
    height = min(a.bottom, b.bottom) - max(a.top, b.top)
    return max(width, 0) * max(height, 0)


@pytest.mark.parametrize("seed", range(20))
def test_crowded_labels_keep_apart(seed):
    """Six names and twenty strengths around one corner of a narrow plot."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(120, 260, (26, 2))
    labels = [Label(x, y, 110 if n < 6 else 28, 14) for n, (x, y) in enumerate(points)]
    boxes = [place.box for place in placed(labels, FRAME)]
    marks = [Box(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    for one, other in itertools.combinations(boxes, 2):
        assert overlap(one, other) < 1e-6
    for box in boxes:
        assert overlap(box, FRAME) == pytest.approx((box.right - box.left) * 14)
        assert all(overlap(box, mark) < 1e-6 for mark in marks)


def test_a_label_alone_stands_above_to_the_right_of_its_mark():
    (place,) = placed([Label(100, 100, 20, 10)], FRAME)
    assert place.near
    assert place.box.left > 100
    assert place.box.top + place.box.bottom < 2 * 100


def test_what_is_taken_is_left_alone_and_a_line_leads_to_what_stands_apart():
    taken = Box(60, 60, 140, 140)
    (place,) = placed([Label(100, 100, 20, 10)], FRAME, [taken])
    assert overlap(place.box, taken) == 0
    assert not place.near


def test_where_nothing_is_free_the_least_is_covered():
    (place,) = placed([Label(100, 100, 20, 10)], FRAME, [FRAME])
    assert placed([Label(100, 100, 20, 10, optional=True)], FRAME, [FRAME]) == [None]
    assert overlap(place.box, FRAME) > 0
    upper = Box(0, 0, 300, 150)
    (place,) = placed([Label(100, 100, 20, 10)], FRAME, [FRAME, upper])
    assert overlap(place.box, upper) == 0
