"""Which code made a record: edited code is other code. Comments, docstrings and layout are not."""

import ast
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec, resolve_name
from pathlib import Path

from smashbench.bench.experiment import (
    attack_victim,
    kept_images,
    make_victim,
    measure,
    scoring,
    wall,
)
from smashbench.bench.experiment.metrics import METRICS, score
from smashbench.bench.experiment.results import IMAGES, VICTIM
from smashbench.bench.suite.kinds import KINDS
from smashbench.bench.suite.plugins import LOADED
from smashbench.bench.suite.trial import Trial
from smashbench.defenses.stack import Stack

MAKING, ATTACKING = make_victim.__name__, attack_victim.__name__
"""The modules that train victims and run attacks."""
APART = frozenset(module.__name__ for module in (kept_images, measure, scoring, wall))
"""Modules that are left out of a trial's hash: they decide no number, or have their own hash."""
STACKING = Stack.__module__
"""The module that makes one defense of several."""
OWN = "smashbench."
NEUTRAL = (
    "smashbench.bench.frozen",
    "smashbench.bench.errors",
    "smashbench.bench.experiment.results",
    "smashbench.bench.experiment.metrics",
)
"""Modules of types and messages, which decide no number, and the list of metrics, each of which has
a hash of its own: another metric changes nothing that was measured."""


def source_of(trial: Trial) -> str | None:
    """A hash of the code that decides a trial's numbers: of an attack its own, and how it is run;
    of a victim that of its defense, model, data set and training; and what they import from this
    package. None where this checkout lacks one of them."""
    tables = [(KINDS[title].table(), each.name) for title, each in trial.components]
    if any(name not in table for table, name in tables):
        return None
    modules = {base.__module__ for table, name in tables for base in table[name].__mro__}
    modules |= {
        module for title, each in trial.components for module in _added_by(title, each.name)
    }
    if trial.attack:
        modules |= {ATTACKING}
    else:
        modules |= {MAKING} | ({STACKING} if len(trial.victim.defense.parts) > 1 else set())
    return _hash_of(frozenset(modules), APART)


def scoring_of(trial: Trial) -> dict[str, str]:
    """Hashes of the code that measures what a trial made: of every metric, of the choice of the
    images that are kept and, of a victim, of what else is measured."""
    found = {}
    for name, metric in METRICS.items():
        functions = (metric.score, metric.derive)
        modules = {getattr(each, "__module__", "") for each in functions if each}
        found[name] = _hash_of(frozenset({*modules, *_added_by("METRICS", name), score.__name__}))
    found[IMAGES] = _hash_of(frozenset({kept_images.__name__}))
    if trial.attack is None:
        found[VICTIM] = _hash_of(frozenset({measure.__name__}))
    return found


def _added_by(title: str, name: str) -> list[str]:
    """The modules of the plug-ins that have a component of this name in this table."""
    return [
        loaded.module.__name__ for loaded in LOADED.values() if name in loaded.tables.get(title, ())
    ]


def _is_ours(module: str) -> bool:
    """Whether a module is of this package, or of a plug-in's."""
    roots = {loaded.module.__name__.partition(".")[0] for loaded in LOADED.values()}
    return module.startswith(OWN) or module.partition(".")[0] in roots


@cache
def _hash_of(modules: frozenset[str], apart: frozenset[str] = frozenset()) -> str:
    text = "\n".join(map(_text_of, sorted(closure(modules, apart))))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def closure(modules: frozenset[str], apart: frozenset[str] = frozenset()) -> set[str]:
    """The modules of this package and of plug-ins among ``modules``, and those that define what
    they import, but for those ``apart``."""
    found: set[str] = set()
    left = [name for name in modules if _is_ours(name)]
    while left:
        name = left.pop()
        if name not in found and name not in NEUTRAL and name not in apart:
            found.add(name)
            left += _imported(name)
    return found


@cache
def _tree_of(module: str) -> ast.Module:
    for loaded in LOADED.values():
        if loaded.module.__name__ == module:
            return ast.parse(loaded.plugin.source)  # which was run; the file may have changed
    imported = import_module(module)
    file = Path(str(imported.__file__))
    if file.suffix != ".py" or not file.stat().st_size:
        return ast.Module([], [])  # of a plug-in: compiled, a folder, or empty
    return ast.parse(inspect.getsource(imported))


def _imported(module: str) -> Iterator[str]:
    package = str(getattr(import_module(module), "__package__", ""))
    for node in ast.walk(_tree_of(module)):
        if isinstance(node, ast.ImportFrom):
            if name := _found("." * node.level + (node.module or ""), package):
                for alias in node.names:
                    yield name if alias.name == "*" else _home(name, alias.name)
        elif isinstance(node, ast.Import):
            yield from filter(None, (_found(alias.name, package) for alias in node.names))


def _found(name: str, package: str) -> str | None:
    """The whole name of a module of ours that a module of a package imports, or of one that its
    author works on; None of another, and of one that is not there: type checkers alone ask for it,
    or it is another version's."""
    try:
        whole = resolve_name(name, package)
        own = _is_ours(whole) or (
            not f"{package}.".startswith(OWN) and _is_worked_on(whole.partition(".")[0])
        )
        return whole if own and import_module(whole) else None
    except ImportError:
        return None


@cache
def _is_worked_on(root: str) -> bool:
    """Whether a package that a plug-in imports is installed from a folder as it stands, or not
    installed at all: its author may edit it. One that is installed has a version."""
    if root in sys.stdlib_module_names or f"{root}." == OWN:
        return False
    packages = metadata.packages_distributions().get(root, [])
    urls = [metadata.distribution(name).read_text("direct_url.json") or "{}" for name in packages]
    editable = [json.loads(url).get("dir_info", {}).get("editable") for url in urls]
    return not packages or any(editable)


def _home(module: str, name: str) -> str:
    """The module that defines what ``from module import name`` gives; the module itself where it
    lacks the name."""
    holder = import_module(module)
    if hasattr(holder, "__path__") and find_spec(f"{module}.{name}"):
        return f"{module}.{name}"
    value = getattr(holder, name, None)
    home = getattr(value, "__module__", None)  # of an instance, that of its class
    if not isinstance(home, str) or not _is_ours(home):
        return module
    return home if getattr(import_module(home), name, None) is value else module


@cache
def _text_of(module: str) -> str:
    return syntax(_tree_of(module))


def syntax(tree: ast.AST) -> str:
    """The syntax tree as text, the same in every Python: without places, docstrings and fields
    that are empty.

    >>> syntax(ast.parse("x = 1  # one")) == syntax(ast.parse("'''A number.'''\\nx = (1)"))
    True
    """
    fields = []
    for name, value in ast.iter_fields(tree):
        if name == "body" and isinstance(value, list):
            value = [each for each in value if not _is_text(each)]
        if value in (None, [], ()) and not isinstance(tree, ast.Constant):
            continue
        fields.append(f"{name}={_shown(value)}")
    return f"{type(tree).__name__}({','.join(fields)})"


def _shown(value: object) -> str:
    if isinstance(value, ast.AST):
        return syntax(value)
    if isinstance(value, list):
        return f"[{','.join(map(_shown, value))}]"
    return repr(value)


def _is_text(node: object) -> bool:
    """Whether a statement is a text alone: a docstring, of whatever it stands behind."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
