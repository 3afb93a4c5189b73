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
SHORT = re.compile(r"worst_fvu|attribute(_over_prediction)?|fvu_over_noise.*")
"""Columns that intervals of two digits or fewer are of, where nothing else is said: among all
columns some interval is the same by chance, whatever is quoted."""
BOARDS = {path.parent.name for path in (ROOT / "results").glob("*/*.csv")}
ALSO = {"README.md": {"attributes"}, "cifar10.md": {"zoo_photos"}}
"""Boards that such intervals of a page are of, and that the page calls by other names."""
OF = {
    "attacks.md": {"[.44, .47]": "strength_cifar10 shadow_fvu"},
    "cifar10.md": {"[.24, .37]": "zoo fvu_at_2_points"},
    "findings.md": {
        "[86, 94]": "zoo worst_rank_1",
        "[99, 100]": "zoo worst_rank_1_features",
        "[.24, .37]": "zoo fvu_at_2_points",
        "[94, 97]": "zoo worst_rank_1_features",
        "[25, 39]": "zoo worst_rank_1_features",
        "[2, 4]": "zoo worst_rank_1_features",
        "[2, 6]": "zoo worst_rank_1",
        "[2, 5]": "attributes worst_rank_1",
        "[.18, .32]": "knowledge_cifar10 decoder_1000_fvu",
        "[.45, .52]": "knowledge_cifar10 decoder_1000_fvu",
        "[.44, .47]": "strength_cifar10 shadow_fvu",
    },
    "tiny_imagenet.md": {
        "[.03, .10]": "tiny_imagenet worst_rank_1_features",
        "[.81, .97]": "tiny_imagenet worst_rank_1_features",
    },
}
"""Board and column of such intervals that are of others."""


class Interval(NamedTuple):
    """With the means of its column, and of that which it is the joint interval of."""

    board: str
    column: str
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
                        board, column = path.parent.name, name.removesuffix("_low")
                        yield from signs(interval(board, row, column))


def interval(board: str, row: dict[str, str], name: str) -> Interval:
    texts = (row.get(each) for each in (name, name.removesuffix("_joint")))
    means = tuple(float(text) for text in texts if text)
    return Interval(board, name, float(row[f"{name}_low"]), float(row[f"{name}_high"]), means)


def signs(found: Interval) -> Iterator[Interval]:
    low, high, means = found.low, found.high, found.means
    yield found
    yield found._replace(low=-high, high=-low, means=tuple(-mean for mean in means))
    yield found._replace(low=100 * low, high=100 * high, means=tuple(100 * m for m in means))


def agree(text: str, values: np.ndarray) -> np.ndarray:
    return np.abs(float(text) - values) <= 0.5001 * 10.0 ** -len(text.partition(".")[2])


def prose(text: str) -> str:
    """Without tables, which other tests compare with their rows, and without code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))


class Known(NamedTuple):
    """All of them."""

    values: np.ndarray
    """(n, 4): low, high, and two means."""
    boards: np.ndarray
    columns: np.ndarray

    short: np.ndarray
    """Whether a column is of those that ``SHORT`` says."""

    def have(self, page: str, text: str, quote: tuple[str, str, str]) -> bool:
        """Whether a mean (or nothing) and an interval, quoted in the text of a page, are there."""
        mean, low, high = quote
        there = agree(low, self.values[:, 0]) & agree(high, self.values[:, 1])
        if mean:
            there &= agree(mean, self.values[:, 2:]).any(1)
        if len(low.partition(".")[2]) < 3:
            there &= self.of(page, text, f"[{low}, {high}]")
        return bool(there.any())

    def of(self, page: str, text: str, quote: str) -> np.ndarray:
        """Those (n,) that a quote of few digits may be of."""
        if place := OF.get(page, {}).get(quote):
            board, column = place.split()
            return (self.boards == board) & (self.columns == column)
        named = {name for name in BOARDS if re.search(rf"`{name}`|results/{name}\b", text)}
        named = (named | ALSO.get(page, set())) or BOARDS
        return np.isin(self.boards, sorted(named)) & self.short


@pytest.fixture(scope="module")
def known() -> Known:
    found = [each for each in published() if each.means]
    values = [(each.low, each.high, *each.means, *each.means)[:4] for each in found]
    boards, columns = np.array([(each.board, each.column) for each in found]).T
    short = {name for name in set(columns) if SHORT.fullmatch(name)}
    return Known(np.array(values), boards, columns, np.isin(columns, sorted(short)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_interval_in_prose_is_of_a_table(page, known):
    """With its mean, where one stands before it."""
    text = page.read_text()
    quotes = QUOTED.findall(prose(text))
    left = {f"[{q[1]}, {q[2]}]" for q in quotes if not known.have(page.name, text, q)}
    assert left == OF_NO_TABLE.get(page.name, set())


def test_a_digit_that_is_wrong_is_found(known):
    """In nearly all intervals of three digits, and in two of three of those with fewer."""
    found: dict[bool, list[bool]] = {True: [], False: []}
    for page in PAGES:
        text = page.read_text()
        for mean, low, high in QUOTED.findall(prose(text)):
            digits = len(low.partition(".")[2])
            for wrong in (float(low) - 10.0**-digits, float(low) + 10.0**-digits):
                quote = (mean, f"{wrong:.{digits}f}", high)
                found[digits < 3].append(not known.have(page.name, text, quote))
    assert np.mean(found[False]) > 0.9
    assert np.mean(found[True]) > 0.66
