"""Plug-ins that import, or are, code of their author's: what of it is in their hash."""

import re
import sys

import pytest

from smashbench.bench.plugged import plug
from smashbench.bench.suite import toml
from smashbench.bench.suite.plugins import LOADED
from smashbench.bench.suite.source import source_of
from smashbench.defenses import DEFENSES
from tests.forge import victim_trial as trial_of
from tests.plugged import DEFENSE, unplugged

pytestmark = pytest.mark.usefixtures("clean")


@pytest.mark.parametrize(
    ("installed", "counts"),
    [("", True), ('{"dir_info": {"editable": true}, "url": "file:///x"}', True), ("{}", False)],
)
def test_code_that_its_author_works_on_counts(installed, counts, write, tmp_path, monkeypatch):
    """Not installed, or installed from a folder as it stands; what is installed has a version."""
    site = tmp_path / "site"
    (site / "mylab").mkdir(parents=True)
    (site / "mylab" / "__init__.py").touch()
    (site / "mylab" / "kinds.py").write_text(
        "class Kind:\n    def __init__(self, by):\n        ...\n"
    )
    if installed:
        info = site / "mylab-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylab\nVersion: 1.0\n")
        (info / "top_level.txt").write_text("mylab\n")
        (info / "direct_url.json").write_text(installed)
    monkeypatch.syspath_prepend(site)
    plugin = write("from mylab.config import KIND\n" + DEFENSE)

    def source(by: float) -> str | None:
        text = f"from mylab.kinds import Kind\nKIND = Kind({by})\n"
        (site / "mylab" / "config.py").write_text(text)
        with unplugged():
            plug([plugin])
            found = source_of(trial_of("shift"))
        for name in ("mylab.config", "mylab.kinds", "mylab"):
            del sys.modules[name]
        return found

    assert (source(0.25) != source(0.125)) is counts


def test_an_installed_package_announces_its_own(tmp_path, monkeypatch, here):
    site = tmp_path / "site"
    (site / "acme").mkdir(parents=True)
    (site / "acme" / "__init__.py").touch()
    (site / "acme" / "kinds.py").write_text("class Kind(float):\n    ...\n")
    made = "from .kinds import Kind\nBY = Kind({})\n"  # an instance: of the module that makes it
    (site / "acme" / "help.py").write_text(made.format(0.25))
    (site / "acme" / "smash.py").write_text("from .help import BY\n" + DEFENSE)
    info = site / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[smashbench.plugins]\nmine = acme.smash\n")
    monkeypatch.syspath_prepend(site)
    assert "shift" in here("list").stdout
    plain = source_of(trial_of("shift"))
    suite = toml.load("smoke", ["defenses={none={},shift={}}"])
    assert [plugin.name for plugin in suite.plugins] == ["acme.smash"]
    assert toml.load("smoke").plugins == ()
    for name in ("acme.smash", "acme.help", "acme.kinds", "acme"):
        del sys.modules[name]
    (site / "acme" / "help.py").write_text(made.format(0.125))
    with unplugged():
        LOADED.clear()
        del DEFENSES["shift"]
        assert "shift" in here("list").stdout
        assert source_of(trial_of("shift")) != plain
    (info / "entry_points.txt").write_text("[smashbench.plugins]\nmine = acme.gone\n")
    LOADED.clear()
    done = here("list")
    assert done.returncode == 2
    assert re.search(r"plug-in 'acme.gone' of the package acme: .*uninstall it", done.stderr)
