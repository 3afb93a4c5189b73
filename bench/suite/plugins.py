"""Plug-ins: components of one's own, in one Python file each, or installed by a package.

A plug-in has tables with the names of this package's: any of ``DEFENSES``, ``ATTACKS``,
``DATASETS``, ``MODELS``, ``METRICS`` and ``ENGINES``, each from names to components, and a list
``FIGURES``.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from smashbench.bench.errors import BenchError
from smashbench.bench.suite.trial import Plugin, Suite

GROUP = "smashbench.plugins"
"""Of the entry points by which an installed package names a module of its own."""
TITLES = ("DEFENSES", "ATTACKS", "DATASETS", "MODELS", "METRICS", "FIGURES", "ENGINES")
PREFIX = "smashbench_plugin_"
"""Of the names of modules that are made from files."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")


@dataclass(frozen=True)
class Loaded:
    """A plug-in that was loaded.

    Args:
        plugin: what is kept of it.
        module: its module.
        tables: what it adds: table to names.
    """

    plugin: Plugin
    module: ModuleType
    tables: Mapping[str, tuple[str, ...]]


LOADED: dict[str, Loaded] = {}
"""Every plug-in by its name: that of its file, or that of its module."""


def load_plugin(path: Path) -> Loaded:
    """Runs a file and adds its components to the tables. Once: the same content again is nothing
    new.

    Raises:
        BenchError: it cannot be read or run, or what it adds is not what it should be.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*\.py", path.name):
        raise BenchError(f"plug-in {path}: should be a Python file, e.g. my_defense.py")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise BenchError(f"plug-in {path}: {error.strerror or error}") from None
    plugin = Plugin(path.name, hashlib.sha256(source).hexdigest(), source)
    if known := LOADED.get(plugin.name):
        if known.plugin != plugin:
            raise BenchError(f"plug-in {path}: another {path.name} is loaded; rename one of them")
        return known
    module = ModuleType(PREFIX + path.stem)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
        return _registered(plugin, module)
    except BenchError:
        del sys.modules[module.__name__]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        where = f"{path}{_line_of(error, path)}"
        raise BenchError(f"plug-in {where}: {type(error).__name__}: {error}") from error


def load_installed() -> None:
    """Loads the plug-ins of installed packages.

    Raises:
        BenchError: one cannot be imported, or what it adds is not what it should be.
    """
    for point in metadata.entry_points(group=GROUP):
        name = point.value.partition(":")[0].strip()
        if name in LOADED:
            continue
        of = f"plug-in {name!r} of the package {point.dist.name if point.dist else '?'}"
        try:
            module = import_module(name)
            source = Path(str(module.__file__)).read_bytes()
        except Exception as error:
            raise BenchError(f"{of}: {type(error).__name__}: {error}; uninstall it") from error
        _registered(Plugin(name, hashlib.sha256(source).hexdigest(), source), module)


def in_use(suite: Suite) -> tuple[Plugin, ...]:
    """The plug-ins whose code decides what a suite comes to: every file that was given, and of
    the installed ones those that have a component of it, or a metric."""
    used = {
        "DEFENSES": {trial.victim.defense.name for trial in suite.victims},
        "ATTACKS": {trial.attack.name for trial in suite.attacks if trial.attack},
        "DATASETS": {trial.victim.dataset.name for trial in suite.victims},
        "MODELS": {trial.victim.model.name for trial in suite.victims},
    }
    return tuple(
        loaded.plugin
        for loaded in LOADED.values()
        if loaded.plugin.is_file
        or "METRICS" in loaded.tables
        or any(used[title] & set(loaded.tables.get(title, ())) for title in used)
    )


def renewed(suite: Suite, folder: Path) -> Suite:
    """The suite of a results folder, with the plug-ins that are loaded.

    Raises:
        BenchError: it was run with one that is not.
    """
    for plugin in suite.plugins:
        if plugin.name not in LOADED:
            kept = f"--plugin {folder / plugin.kept}, which runs the code in it"
            how = f"give {kept}" if plugin.is_file else "install the package that has it"
            raise BenchError(f"{folder} was run with the plug-in {plugin.name}: {how}")
    return replace(suite, plugins=in_use(suite))


def _line_of(error: BaseException, path: Path) -> str:
    lines = []
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.lineno:
        lines = [error.lineno]
    return f", line {lines[-1]}" if lines else ""


def _registered(plugin: Plugin, module: ModuleType) -> Loaded:
    """Adds the components to the tables, all or none."""
    if not any(getattr(module, title, None) for title in TITLES):
        raise BenchError(
            f"plug-in {plugin.name}: adds nothing; give it a table, "
            'e.g. DEFENSES = {"my_defense": MyDefense}; tables are ' + ", ".join(TITLES)
        )
    found = {
        title: _checked(plugin, title, kind, getattr(module, title))
        for title, kind in KINDS.items()
        if hasattr(module, title)
    }
    for title in found:
        KINDS[title].add(getattr(module, title))
    loaded = Loaded(plugin, module, found)
    LOADED[plugin.name] = loaded
    return loaded


@dataclass(frozen=True)
class Kind:
    """A kind of component that a plug-in may add.

    Args:
        word: for one.
        base: what each of them is: a subclass of it, or an instance where ``instances``.
        table: those that are there.
        instances: whether they are values rather than classes.
    """

    word: str
    base: Callable[[], type]
    table: Callable[[], Any]
    instances: bool = False

    @property
    def names(self) -> list[str]:
        """Of those that are there."""
        table = self.table()
        return [each.name for each in table] if isinstance(table, list) else list(table)

    def add(self, entries: Any) -> None:
        """Adds the components of a plug-in's table."""
        table = self.table()
        if isinstance(table, list):
            table.extend(entries)
        else:
            table.update(entries)


def _checked(plugin: Plugin, title: str, kind: Kind, entries: Any) -> tuple[str, ...]:
    """The names in a table of a plug-in.

    Raises:
        BenchError: it is no such table.
    """
    start, base = f"plug-in {plugin.name}: {title}", kind.base()
    if isinstance(kind.table(), list):
        if not isinstance(entries, list | tuple):
            raise BenchError(f"{start} should be a list of {base.__name__} objects")
        entries = {getattr(each, "name", str(each)): each for each in entries}
    if not isinstance(entries, Mapping):
        raise BenchError(f'{start} should be a table, e.g. {title} = {{"mine": Mine}}')
    for name, entry in entries.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BenchError(f"{start}[{name!r}]: names are lower case, digits and underscores")
        if name in kind.names:
            raise BenchError(f"{start}[{name!r}]: there is a {kind.word} of this name; rename it")
        if kind.instances:
            fits = isinstance(entry, base)
        else:
            fits = isinstance(entry, type) and issubclass(entry, base)
        if not fits:
            wanted = f"{base.__name__} object" if kind.instances else f"subclass of {base.__name__}"
            raise BenchError(f"{start}[{name!r}] should be a {wanted}; it is {entry!r}")
        if kind.instances and entry.name != name:
            raise BenchError(f"{start}[{name!r}] calls itself {entry.name!r}; use one name")
    return tuple(entries)


def _kind(word: str, module: str, base: str, table: str, *, instances: bool = False) -> Kind:
    """Of what a module has under these names; it is imported when it is needed, since some import
    PyTorch."""

    def has(name: str) -> Callable[[], Any]:
        return lambda: getattr(import_module(module), name)

    return Kind(word, has(base), has(table), instances)


EXPERIMENT = "smashbench.bench.experiment"
KINDS: dict[str, Kind] = {
    "DEFENSES": _kind("defense", "smashbench.defenses", "Defense", "DEFENSES"),
    "ATTACKS": _kind("attack", "smashbench.attacks", "Attack", "ATTACKS"),
    "DATASETS": _kind("data set", "smashbench.datasets", "Dataset", "DATASETS"),
    "MODELS": _kind("model", f"{EXPERIMENT}.models", "Model", "MODELS"),
    "METRICS": _kind("metric", f"{EXPERIMENT}.metrics", "Metric", "METRICS", instances=True),
}
"""The tables of a plug-in by their ``TITLES``; ``plugged`` adds those of the wings above this."""
