"""bench -> attacks, defenses, datasets -> torch, and never the other way."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("bench", "attacks", "defenses", "datasets")


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found & set(PACKAGES)


@pytest.mark.parametrize("package", ["attacks", "defenses", "datasets"])
def test_components_import_only_their_own_package(package):
    for path in (ROOT / package).rglob("*.py"):
        assert imported(path) <= {package}, path


def test_imports_have_no_effects_and_no_cycles():
    """Each package imports alone, prints nothing, starts no threads and touches no seeds."""
    for package in PACKAGES:
        code = f"import torch; s = torch.get_rng_state(); import {package}; "
        code += "assert torch.equal(s, torch.get_rng_state())"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_report_starts_without_pytorch():
    """It takes a second, and tables need none of it."""
    code = (
        "import bench.__main__, bench.report, bench.compare, sys; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_datasets_is_ours_and_nothing_is_packaged():
    import datasets

    assert Path(datasets.__file__).parent == ROOT / "datasets"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["packages"] == []
    assert "Private :: Do Not Upload" in project["project"]["classifiers"]


def test_files_stay_small():
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            assert len(path.read_text().splitlines()) <= 300, path
