"""Plug-ins as the command line takes them: of every kind, also of those of the upper wings."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smashbench.bench.suite.plugins import Loaded


def plug(paths: Iterable[Path], *, lenient: bool = False) -> list["Loaded"]:
    """Loads the plug-ins of installed packages, and these files; ``lenient`` as in
    ``load_plugin``.

    Raises:
        BenchError: one cannot be run, or is no plug-in.
    """
    from smashbench.bench.suite.kinds import KINDS, Kind  # here: the help needs no pydantic
    from smashbench.bench.suite.plugins import load_installed, load_plugin

    for kind in (
        Kind("figure", "smashbench.bench.report.figures", "Figure", "FIGURES", True, "tradeoff_"),
        Kind("engine", "smashbench.bench.run.engines", "Engine", "ENGINES"),
    ):
        KINDS.setdefault(kind.title, kind)
    load_installed()
    return [load_plugin(path, lenient=lenient) for path in paths]
