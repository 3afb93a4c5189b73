"""bench -> attacks, defenses, datasets -> torch, and never the other way; and within bench."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from smashbench.bench.command import EXAMPLES
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests.forge import attack_trial, keep_attack, keep_victim, victim_trial

ROOT = Path(__file__).parent.parent
PACKAGES = ("bench", "attacks", "defenses", "datasets")


WINGS = (
    *("errors", "frozen", "processes", "experiment", "suite", "contracts", "store", "run"),
    *("report", "auditing", "submitting", "plugged", "fetching", "listing", "commands"),
    *("output", "command"),
)
"""Of the bench, lowest first."""
APART = {"run", "report"}
"""Neither imports the other."""
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, inside functions and for types, too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imported(path: Path) -> set[str]:
    """Our packages among them."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("smashbench.")}


@pytest.mark.parametrize("package", ["attacks", "defenses", "datasets"])
def test_components_import_only_their_own_package(package):
    for path in (ROOT / package).rglob("*.py"):
        assert imported(path) <= {package}, path


@pytest.mark.slow
def test_imports_have_no_effects_and_no_cycles():
    """Each package imports alone, prints nothing, starts no threads and touches no seeds."""
    started = []
    for package in PACKAGES:
        code = f"import torch; s = torch.get_rng_state(); import smashbench.{package}; "
        code += "assert torch.equal(s, torch.get_rng_state())"
        command = [sys.executable, "-c", code]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, cwd=ROOT, text=True, **pipes))
    for process in started:
        assert process.communicate(timeout=120) == ("", "")
        assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import smashbench.bench.command, smashbench.bench.report.write",
        "from smashbench.bench.command import main; main(['--help'])",
        "from smashbench.bench.command import main; main(['run', '--help'])",
    ],
)
def test_help_and_a_report_start_without_pytorch(code):
    """It takes seconds, and tables need none of it."""
    code = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
    subprocess.run([sys.executable, "-c", f"{code}assert 'torch' not in sys.modules"], check=True)


HEAVY = {"matplotlib", "pandas", "scipy", "skimage", "sklearn", "torchvision", "triton", "jinja2"}
"""Packages that take tenths of a second to import, and that few commands need."""


def test_the_help_of_every_command_imports_nothing_heavy():
    assert "run" in EXAMPLES
    loaded = _loaded("pass", *(f"main([{command!r}, '--help'])" for command in EXAMPLES))
    assert not loaded & {*HEAVY, "torch", "numpy", "pydantic"}


@pytest.mark.slow
def test_a_dry_run_imports_nothing_heavy_but_pytorch():
    """What PyTorch imports itself depends on its version."""
    assert not _loaded("import torch", "main(['run', 'quick', '--dry-run'])") & HEAVY


def _loaded(before: str, *calls: str) -> set[str]:
    """The packages that calls of ``main`` import in a process that has run ``before``."""
    lines = ["import sys", before, "known = set(sys.modules)"]
    lines.append("from smashbench.bench.command import main")
    for call in calls:
        lines += ["try:", f"    {call}", "except SystemExit:", "    pass"]
    lines.append("print(*{name.partition('.')[0] for name in set(sys.modules) - known})")
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.slow
def test_a_report_is_written_without_pytorch(tmp_path):
    victim = victim_trial("none", None)
    attack = attack_trial(victim, "gmm")
    save_suite(Suite("one", "", (victim,), (attack,)), tmp_path)
    keep_victim(Store(tmp_path), victim)
    keep_attack(Store(tmp_path), attack)
    code = "import sys; from smashbench.bench.command import main; code = main(sys.argv[1:]); "
    code += "assert 'torch' not in sys.modules; sys.exit(code)"
    subprocess.run([sys.executable, "-c", code, "report", tmp_path], check=True)
    assert (tmp_path / "leaderboard.csv").is_file()


def test_our_modules_have_one_name():
    """A module under two names would be two modules, with two tables of components."""
    for path in FILES:
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & set(PACKAGES), path


@pytest.mark.parametrize("path", sorted((ROOT / "bench").rglob("*.py")), ids=str)
def test_the_wings_of_the_bench_import_one_way(path):
    ours = path.relative_to(ROOT / "bench").parts[0].removesuffix(".py")
    if ours.startswith("__"):
        return  # starts the command
    for name in imports(path):
        if not name.startswith("smashbench.bench."):
            continue
        theirs = name.split(".")[2]
        assert WINGS.index(theirs) <= WINGS.index(ours), name
        assert theirs == ours or {theirs, ours} != APART, name


def test_files_stay_small():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 300, path
