"""The documentation says what is in the tables, and points at what is there."""

import csv
import re

import pytest

from smashbench.bench.experiment.models import MODELS
from smashbench.bench.report.flags import FLAGS
from smashbench.bench.suite import toml as suite
from smashbench.datasets import DATASETS
from smashbench.defenses import DEFENSES
from tests.commands import ROOT

DIAGNOSTICS = {
    name
    for defense in DEFENSES.values()
    for name, diagnostic in defense.diagnostics.items()
    if diagnostic.column
}
ELSEWHERE = {"attribute", "attribute_over_prediction", "ssim", "psnr", *DIAGNOSTICS}
"""Columns of images or defenses that the run has not, and short forms of others."""
ATTACK = re.compile(r"^(mean|class_mean|gmm|knn|decoder)_(mse|ssim|psnr|fvu)$")


@pytest.mark.parametrize("name", ["leaderboard", "leaderboard_by_defense", "records"])
def test_every_column_is_documented(run, name):
    text = (ROOT / "docs" / "columns.md").read_text()
    (section,) = [part for part in text.split("\n## ") if part.startswith(f"{name}.csv")]
    documented = set(re.findall(r"`([a-z0-9_]+)`", section))
    with (run / f"{name}.csv").open() as file:
        columns = next(csv.reader(file))
    ends = {column: re.sub(r"_(low|high)$", "", column) for column in columns}
    plain = [mean if mean in columns else column for column, mean in ends.items()]
    plain = [column for column in plain if not (name == "leaderboard" and ATTACK.match(column))]
    plain = [
        column for column in plain if not re.match(r"(mse|ssim|psnr)_(mean|std|q\d\d)$", column)
    ]
    assert set(plain) <= documented
    named = re.findall(r"^\| (`.*?) \|", section, re.M)
    listed = {word for cell in named for word in re.findall(r"`([a-z0-9_]+)`", cell)}
    assert listed - set(columns) <= ELSEWHERE


def test_every_diagnostic_of_the_leaderboard_is_documented():
    text = (ROOT / "docs" / "columns.md").read_text()
    assert set(re.findall(r"`(\w+)`", text)) >= DIAGNOSTICS


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "results" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_and_to_results_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def anchors(text: str) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_headings_lead_to_one(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]*)\)", page.read_text()):
        other = page.parent / target if target else page
        if other.suffix == ".md" and not target.startswith("http"):
            assert anchor in anchors(other.read_text()), (target, anchor)


def test_a_published_board_has_its_records():
    """All but ``quick``, which `make bench` makes again."""
    boards = {path.parent for path in (ROOT / "results").glob("*/leaderboard.md")}
    without = {board.name for board in boards if not (board / "packed.zip").exists()}
    assert len(boards) > 5
    assert without == {"quick"}


def test_every_defense_is_a_line_of_the_table_with_its_group_and_knob():
    group, found = "", {}
    for line in (ROOT / "docs" / "defenses.md").read_text().splitlines():
        if line.startswith("| ") and (cells := line.split("|")[1:-1])[1].strip().startswith("`"):
            group = cells[0].strip() or group
            knob = cells[3].strip(" `") or None
            found |= dict.fromkeys(re.findall(r"`(\w+)`", cells[1]), (group, knob))
    assert found == {name: (each.group, each.strength) for name, each in DEFENSES.items()}


def test_every_data_set_model_and_suite_is_on_its_page():
    text = (ROOT / "docs" / "data.md").read_text()
    running = (ROOT / "docs" / "running.md").read_text()
    for name in (*DATASETS, *MODELS):
        assert f"`{name}`" in text, name
    for name in suite.names():
        assert f"`{name}`" in text + running, name


def test_the_index_has_every_page():
    text = (ROOT / "docs" / "README.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "README.md" or f"({path.name})" in text, path.name


def test_every_flag_is_documented():
    text = (ROOT / "docs" / "columns.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", text.split("## Flags")[1].split("\n## ")[0], re.M)
    assert {flag.name for flag in FLAGS} == set(listed)


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 200
