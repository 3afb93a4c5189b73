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

    KINDS.setdefault("FIGURES", Kind("figure", _figure, _figures, instances=True))
    KINDS.setdefault("ENGINES", Kind("engine", _engine, _engines))
    load_installed()
    return [load_plugin(path, lenient=lenient) for path in paths]


def _figure() -> type:
    from smashbench.bench.report.figures import Figure

    return Figure


def _figures() -> object:
    from smashbench.bench.report.figures import FIGURES

    return FIGURES


def _engine() -> type:
    from smashbench.bench.run.engines import Engine

    return Engine


def _engines() -> object:
    from smashbench.bench.run.engines import ENGINES

    return ENGINES
