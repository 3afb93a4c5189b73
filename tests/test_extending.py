"""Every file of docs/extending.md and of the README, as it stands there, outside the checkout."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT, bench

PAGES = [(ROOT / page).read_text() for page in ("docs/extending.md", "README.md")]
BLOCKS = re.findall(r"```python\n# (my_\w+\.py).*?\n(.*?)```", "".join(PAGES), flags=re.S)
NAMES = [name for name, _ in BLOCKS]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("outside")
    for name, text in BLOCKS:
        (folder / name).write_text(text)
    return {name: folder / name for name in NAMES}


def test_there_is_one_of_every_kind():
    kinds = ("attack", "ceiling", "data", "defense", "engine", "figure", "metric", "model")
    assert sorted(NAMES) == [f"my_{kind}.py" for kind in kinds]


@pytest.mark.slow
def test_each_keeps_its_contract_and_all_run_together(files, tmp_path):
    code = "import sys; from smashbench.bench.command import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "check", *files.values()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    plugins = [word for path in files.values() for word in ("--plugin", path)]
    changes = [
        "defenses={none={},noise={strengths=[0.3]},shrink={strengths=[0.1,1]},ceiling={}}",
        "attacks={mean={},nearest={}}",
        "dataset={use='stripes',train=120,val=30,aux=90,test=45}",
        "model={use='tiny',features=32}",
    ]
    settings = [word for change in changes for word in ("--set", change)]
    done = bench(
        *("run", "smoke", *plugins, *settings, "--out", tmp_path / "out", "--engine", "pool")
    )
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert (out / "error_over_time.png").is_file()
    assert "worst_mae" in (out / "leaderboard.csv").read_text()
    page = (out / "report.html").read_text()
    assert "shrink" in page
    assert "my_metric.py: SHA-256" in page
    assert sorted(path.name for path in (out / "plugins").iterdir()) == sorted(NAMES)
    done = bench("figure", out, "diagnostics", "--style", "web", *plugins)
    assert done.returncode == 0, done.stderr
    assert "variance of the features" in (out / "web" / "diagnostics.svg").read_text()
