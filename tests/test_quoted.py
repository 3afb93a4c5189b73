"""Tables quoted in the documentation hold the numbers of the published tables, rounded."""

import csv
import re
import runpy
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.commands import ROOT

PLACES = [
    ("docs/cifar10.md", "CIFAR-10 on two CPU cores", "zoo", 90),
    ("docs/cifar10.md", "The reference network", "cifar10", 190),
    ("docs/fashion_mnist.md", "", "fashion_mnist", 300),
    ("docs/tiny_imagenet.md", "", "tiny_imagenet", 260),
    ("docs/attacks.md", "What `attributes` shows", "attributes", 150),
    ("docs/attacks.md", "What `faces` shows", "faces", 120),
]
"""Page, heading of the section ("": the whole page), board, and how many numbers are quoted."""
COLUMNS = {
    "accuracy": "accuracy",
    "worst MSE": "worst_mse",
    "SSIM": "worst_ssim",
    "FVU": "worst_fvu",
    "rank-1": "worst_rank_1",
    "rank-1 of 110": "worst_rank_1",
    "rank-1 of 2,000": "worst_rank_1",
    "rank-1 by features": "worst_rank_1_features",
    "class of ten": "attribute",
    "who of ten": "attribute",
    "beyond the prediction": "attribute_over_prediction",
    "over noise": "fvu_over_noise",
    "alone": "fvu_over_noise",
    "at once": "fvu_over_noise_joint",
}
NUMBER = re.compile(r"[-+]?\d*\.\d+")


@pytest.mark.parametrize(("page", "heading", "board", "least"), PLACES)
def test_tables_of_rows_are_those_of_the_board(page, heading, board, least):
    text = section((ROOT / page).read_text(), heading)
    rows, sweeps = published(board, "leaderboard"), published(board, "leaderboard_by_defense")
    compared = 0
    for cells in tables(text):
        name = re.match(r"`?(\w+)`?(, (?:over|one|\d+) [\w ]+| -?[\d.]+)?", cells[""])
        assert name, cells
        defense, strength = name.group(1), name.group(2) or ""
        swept = strength.startswith(",")
        row = sweeps[defense, 0.0] if swept else rows[defense, float(strength or 0)]
        for header, cell in cells.items():
            if column := COLUMNS.get(header):
                compared += agree(cell, row, column)
    assert compared >= least


def test_the_tables_that_a_script_writes_are_those_it_would_write_now():
    script = runpy.run_path(str(ROOT / "results" / "tables.py"))
    for page, header, lines in script["tables"]():
        text = page.read_text()
        assert script["renewed"](text, header, lines) == text, (page.name, header)


def agree(cell: str, row: dict[str, str], column: str) -> int:
    """Compares what a cell quotes, ``mean``, ``[low, high]`` or both, with a row of a table; the
    count of its numbers."""
    quoted = NUMBER.findall(cell)
    ends = [f"{column}_low", f"{column}_high"]
    names = {1: [column], 2: ends, 3: [column, *ends]}[len(quoted)] if quoted else []
    for text, name in zip(quoted, names, strict=True):
        unit = 10.0 ** -len(text.split(".")[1])
        assert abs(float(text) - float(row[name])) <= 0.5001 * unit, (cell, name, row[name])
    return len(quoted)


def section(text: str, heading: str) -> str:
    if not heading:
        return text
    (found,) = [part for part in re.split(r"(?:^|\n)#+ ", text) if part.startswith(f"{heading}\n")]
    return found


def published(board: str, name: str) -> dict[tuple[str, float], dict[str, str]]:
    path = ROOT / "results" / board / f"{name}.csv"
    if not path.exists():
        return {}
    with path.open() as file:
        return {
            (row["defense"], float(row.get("strength") or 0)): row for row in csv.DictReader(file)
        }


def tables(text: str) -> Iterator[dict[str, str]]:
    """Lines of all tables that begin with a row's name, cells by header, the name under ""."""
    header: list[str] = []
    edges: list[int] = []
    before = ""
    for line in text.splitlines():
        if line.startswith("---") and before.startswith("defense "):
            edges = [match.start() for match in re.finditer(r"-+", line)]
            header = ["", *(before[at:].split("  ")[0].strip() for at in edges[2:])]
        elif line.startswith("|---"):
            header = ["", *(cell.strip() for cell in before.split("|")[2:-1])]
        elif line.startswith("| `") and header:
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            yield dict(zip(header, cells, strict=True))
        elif edges and line and not line.startswith("```"):
            cells = [line[at : (*edges, None)[i + 1]].strip() for i, at in enumerate(edges)]
            yield dict(zip(header, [f"{cells[0]} {cells[1]}".strip(), *cells[2:]], strict=True))
        else:
            header, edges = ([], []) if not line.startswith("|") else (header, edges)
        before = line


def test_the_table_of_sweeps_in_the_readme_is_that_of_the_boards():
    """Bold where the interval excludes 0; a defense without a cell is not on that board. Those on
    several boards are all there."""
    boards = {"CIFAR-10": "zoo", "Fashion-MNIST": "fashion_mnist", "Tiny-ImageNet": "tiny_imagenet"}
    boards |= {"Reference network": "cifar10"}
    text = section((ROOT / "README.md").read_text(), "What was found")
    lines = [cells for cells in tables(text) if cells[""].startswith("`")]
    listed = {cells[""].strip("`") for cells in lines}
    compared = Counter(
        defense
        for board in boards.values()
        for (defense, _), row in published(board, "leaderboard_by_defense").items()
        if row["fvu_over_noise_joint_low"]
    )
    assert listed == {defense for defense, times in compared.items() if times > 1}
    for header in list(lines[0])[1:]:
        sweeps = published(boards[header.split(",")[0]], "leaderboard_by_defense")
        for cells in lines:
            row = sweeps.get((cells[""].strip("`"), 0.0))
            assert bool(cells[header]) == bool(row), (header, cells[""])
            if row:
                mean, ends = cells[header].strip("*").split(" ", 1)
                assert (
                    agree(mean, row, "fvu_over_noise") + agree(ends, row, "fvu_over_noise_joint")
                    == 3
                )
                low, high = (float(row[f"fvu_over_noise_joint_{end}"]) for end in ("low", "high"))
                assert cells[header].startswith("**") == (low > 0 or high < 0)
