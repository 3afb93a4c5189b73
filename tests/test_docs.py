"""The documentation says what is in the tables, and points at what is there."""

import csv
import re

import pytest

from smashbench.bench.experiment.models import MODELS
from smashbench.bench.suite import toml as suite
from smashbench.datasets import DATASETS
from tests.commands import ROOT

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
    assert {word for word in documented if word in columns} >= set(plain)


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "docs/attacks.md", "docs/columns.md", "docs/data.md", "docs/running.md"),
        *("docs/extending.md", "docs/architecture.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    ],
)
def test_links_between_pages_and_to_results_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_every_data_set_model_and_suite_is_on_its_page():
    text = (ROOT / "docs" / "data.md").read_text()
    readme = (ROOT / "README.md").read_text()
    for name in (*DATASETS, *MODELS):
        assert f"`{name}`" in text, name
    for name in suite.names():
        assert f"`{name}`" in text + readme, name
