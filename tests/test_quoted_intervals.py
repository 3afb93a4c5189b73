"""Intervals that pages quote are those of some published table, rounded."""

import csv
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from tests.commands import ROOT

QUOTED = re.compile(r"([-+]?\d*\.?\d+)?(?: %)?(?:\*\*)? ?\[([-+]?\d*\.?\d+), ([-+]?\d*\.?\d+)\]")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_NO_TABLE = {
    "ablations.md": {"[.003, .146]", "[-.007, .148]"},  # of an earlier cut of the photographs
    "findings.md": {"[.003, .146]"},
    "fashion_mnist.md": {"[.031, .060]", "[.013, .078]"},  # the report of another commit
    "xia2025.md": {"[.0000, .0252]", "[-.0076, .0192]", "[.0112, .0372]"},  # paired by images
    "zoo.md": {"[.0090, .0140]"},  # one training, eight times as long
}
"""Intervals of runs and reports whose tables are not kept; the page says which."""


class Interval(NamedTuple):
    """With the means of its column, and of that which it is the joint interval of."""

    low: float
    high: float
    means: tuple[float, ...]


def published() -> Iterator[Interval]:
    """Of all tables, as they are, as what the other side has less, and in percent."""
    for path in (ROOT / "results").glob("*/*.csv"):
        with path.open() as file:
            for row in csv.DictReader(file):
                for name in row:
                    if name.endswith("_low") and row[name]:
                        yield from signs(interval(row, name.removesuffix("_low")))


def interval(row: dict[str, str], name: str) -> Interval:
    texts = (row.get(each) for each in (name, name.removesuffix("_joint")))
    means = tuple(float(text) for text in texts if text)
    return Interval(float(row[f"{name}_low"]), float(row[f"{name}_high"]), means)


def signs(found: Interval) -> Iterator[Interval]:
    low, high, means = found
    yield found
    yield Interval(-high, -low, tuple(-mean for mean in means))
    yield Interval(100 * low, 100 * high, tuple(100 * mean for mean in means))


def agree(text: str, values: np.ndarray) -> np.ndarray:
    return np.abs(float(text) - values) <= 0.5001 * 10.0 ** -len(text.partition(".")[2])


def prose(text: str) -> str:
    """Without tables, which other tests compare with their rows, and without code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))


@pytest.fixture(scope="module")
def known() -> np.ndarray:
    """(n, 4): low, high, and two means."""
    return np.array([(*ends, *means, *means)[:4] for *ends, means in published() if means])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_interval_in_prose_is_of_a_table(page, known):
    """With its mean, where one stands before it."""
    left = set()
    for mean, low, high in QUOTED.findall(prose(page.read_text())):
        ends = known[agree(low, known[:, 0]) & agree(high, known[:, 1])]
        if not len(ends) or (mean and not agree(mean, ends[:, 2:]).any()):
            left.add(f"[{low}, {high}]")
    assert left == OF_NO_TABLE.get(page.name, set())
