"""Plug-ins: components of one's own, in one Python file each, or installed by a package.

A plug-in has tables with the names of this package's: any of ``DEFENSES``, ``ATTACKS``,
``DATASETS``, ``MODELS``, ``METRICS`` and ``ENGINES``, each from names to components, and a list
``FIGURES``.
"""

import hashlib
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

from smashbench.bench.errors import BenchError, line_in
from smashbench.bench.suite.kinds import KINDS, TITLES, names_in, unusable
from smashbench.bench.suite.trial import Plugin, Suite

GROUP = "smashbench.plugins"
"""Of the entry points by which an installed package names a module of its own."""
PREFIX = "smashbench_plugin_"
"""Of the names of modules that are made from files."""


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


def load_plugin(path: Path, *, lenient: bool = False) -> Loaded:
    """Runs a file and adds its components to the tables. Once: the same content again is nothing
    new.

    Args:
        path: the file.
        lenient: components that could not be used are added, too: to be tested.

    Raises:
        BenchError: it cannot be read or run, or what it adds is not what it should be.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*\.py", path.name):
        raise BenchError(
            f"plug-in {path}: should be a Python file whose name has letters, digits and "
            "underscores alone, e.g. my_defense.py"
        )
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
        return _registered(plugin, module, lenient)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        if isinstance(error, BenchError):
            raise
        line, hint = line_in(str(path), error), ""
        if isinstance(error, ImportError):
            hint = (
                "; a plug-in is one file, which may import what is installed, but not its siblings"
            )
        where = f"{path}, line {line}" if line else path
        raise BenchError(f"plug-in {where}: {type(error).__name__}: {error}{hint}") from error


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
        plugin = Plugin(name, hashlib.sha256(source).hexdigest(), source)
        _registered(plugin, module, lenient=False)


def in_use(suite: Suite) -> tuple[Plugin, ...]:
    """The plug-ins whose code decides what a suite comes to: every file that was given, and of
    the installed ones those that have a component of it, or a metric."""
    trials = (*suite.victims, *suite.attacks)
    used = {(title, each.name) for trial in trials for title, each in trial.components}
    return tuple(
        loaded.plugin
        for loaded in LOADED.values()
        if loaded.plugin.is_file
        or "METRICS" in loaded.tables
        or any((title, name) in used for title in loaded.tables for name in loaded.tables[title])
    )


def renewed(suite: Suite, folder: Path) -> Suite:
    """The suite of a results folder, with the plug-ins that are loaded.

    Raises:
        BenchError: it was run with one that is not.
    """
    lacking = [plugin for plugin in suite.plugins if plugin.name not in LOADED]
    if not lacking:
        return replace(suite, plugins=in_use(suite))
    hints = []
    if modules := [plugin.name for plugin in lacking if not plugin.is_file]:
        hints.append(f"install the packages that have {', '.join(modules)}")
    if options := plugin_options(replace(suite, plugins=tuple(lacking)), folder):
        hints.append(f"give{options}, which runs the code in it")
    names = ", ".join(plugin.name for plugin in lacking)
    raise BenchError(f"{folder} was run with the plug-in {names}: {'; '.join(hints)}")


def plugin_options(suite: Suite, folder: Path) -> str:
    """The options of a command that needs the suite's plug-ins: `` --plugin mine.py``."""
    paths = [_path_of(plugin, folder) for plugin in suite.plugins if plugin.is_file]
    return "".join(f" --plugin {shlex.quote(str(path))}" for path in paths)


def _path_of(plugin: Plugin, folder: Path) -> Path:
    """The file that was loaded, which may be newer than the copy in the folder; where none was,
    that copy; and where there is none, the name of the file alone."""
    if loaded := LOADED.get(plugin.name):
        return Path(str(loaded.module.__file__))
    stored = folder / plugin.stored_at
    return stored if stored.exists() else Path(plugin.name)


def _registered(plugin: Plugin, module: ModuleType, lenient: bool) -> Loaded:
    """Adds the components to the tables, all or none."""
    if not any(getattr(module, title, None) for title in TITLES):
        raise BenchError(
            f"plug-in {plugin.name}: adds nothing; give it a table, "
            'e.g. DEFENSES = {"my_defense": MyDefense}; tables are ' + ", ".join(TITLES)
        )
    found = {
        title: names_in(plugin.name, kind, getattr(module, title))
        for title, kind in KINDS.items()
        if hasattr(module, title)
    }
    for title, names in found.items():
        entries = getattr(module, title)
        for name in names if isinstance(entries, Mapping) and not lenient else ():
            if why := unusable(entries[name]):
                file = f"smashbench check {plugin.name}"
                raise BenchError(f"plug-in {plugin.name}: {name!r} {why}; {file} says more")
    metrics = KINDS["METRICS"].table() | dict(getattr(module, "METRICS", {}))
    for name in found.get("METRICS", ()) if not lenient else ():
        if (of := metrics[name].of) and not (of in metrics and metrics[of].score):
            raise BenchError(
                f"plug-in {plugin.name}: {name!r} is derived `of` {of!r}: should be the name of a "
                "metric with a `score`"
            )
    for title in found:
        KINDS[title].add(getattr(module, title))
    loaded = Loaded(plugin, module, found)
    LOADED[plugin.name] = loaded
    return loaded
