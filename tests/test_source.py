"""Which edits make a record outdated, and which do not."""

import ast
import hashlib
import inspect
import py_compile

import pytest

from smashbench.attacks import ATTACKS
from smashbench.bench.experiment import cell, scoring
from smashbench.bench.suite import source
from smashbench.bench.suite import toml as suite
from smashbench.bench.suite.config import PROTOCOL, Component
from smashbench.bench.suite.source import closure, source_of, syntax
from smashbench.bench.suite.trial import Trial
from smashbench.defenses import DEFENSES
from tests.forge import attack_trial, victim_trial
from tests.plugged import DEFENSE, plug

CODE = '''
"""A module."""
from a import b


def f(x: int, *, y=2.5) -> list[str]:
    """Says what."""
    if x and not y:
        return [f"{z:.3f} {y!r}" for z in range(x) if z > 1]
    k = lambda *a, **kw: (a, kw, None, ...)
    return {**b, "k": k}


class A(b, metaclass=type):
    n: int = 1
    """Of things."""
'''


@pytest.fixture(autouse=True)
def fresh():
    """What was read of a module is not kept from one test to the next."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for function in (source._hash_of, source._tree_of, source._text_of):
        function.cache_clear()


def test_comments_docstrings_and_layout_do_not_count_and_anything_else_does():
    plain = syntax(ast.parse(CODE))
    other = CODE.replace("Says what", "Says more").replace(
        "    n: int = 1", "    n: int = (1)  # !"
    )
    assert syntax(ast.parse(other.replace("Of things.", "Of others."))) == plain
    for old, new in (("y=2.5", "y=2"), ("z > 1", "z >= 1"), ("None", "True"), ('"k"', '"l"')):
        assert syntax(ast.parse(CODE.replace(old, new))) != plain


def test_the_text_is_the_same_in_every_python():
    """By 3.11; releases since then add fields to nodes, which are empty here."""
    digest = hashlib.sha256(syntax(ast.parse(CODE)).encode()).hexdigest()
    assert digest == "1d3d5e825fc51e57eec8cf6ca85cc9458dcd8158c8f4e92bf0e7d1b2839aafb4"


def hashed(trial: Trial, edited: str = "", old: str = "", new: str = "") -> str | None:
    """The source of a trial where one module reads otherwise."""
    original = inspect.getsource

    def read(module) -> str:
        text = original(module)
        if module.__name__ != f"smashbench.{edited}":
            return text
        assert old in text
        return text.replace(old, new, 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "getsource", read)
        for function in (source._hash_of, source._tree_of, source._text_of):
            function.cache_clear()
        return source_of(trial)


EDITS = [
    ("defenses.kmeans_cem", "clusters: Annotated[int, Ge(1)] = 5", "clusters: int = 5", True),
    ("bench.experiment.models.small", "16, pool=True", "24, pool=True", True),
    ("bench.experiment.models.base", "* 4", "* 5", True),
    ("bench.experiment.models.vgg11", "0.5", "0.4", False),
    ("datasets.photos", "REGION, PATCH = 384, 64, 32", "REGION, PATCH = 384, 64, 33", True),
    ("bench.experiment.augment", "< 0.5", "< 0.6", True),
    ("bench.experiment.train", "steps=3", "steps=4", True),
    ("bench.experiment.train", '"""Training a victim."""', '"""Trains."""  # a victim', False),
    ("attacks.decoder", "0.15", "0.16", False),
    ("bench.frozen", "LONGEST = 200", "LONGEST = 100", False),
    ("bench.report.flags", "0.5", "0.6", False),
]


@pytest.mark.parametrize(("module", "old", "new", "counts"), EDITS)
def test_what_trained_a_victim_counts(module, old, new, counts):
    trial = victim_trial("kmeans_cem")
    plain = hashed(trial)
    assert (hashed(trial, module, old, new) != plain) == counts


def test_what_an_attack_imports_counts():
    victim = victim_trial()
    decoder, ridge = attack_trial(victim, "decoder"), attack_trial(victim, "ridge")
    for module, old, new in (
        (
            "attacks.network",
            "NEIGHBOURHOODS, INPUTS = (5, 3, 1)",
            "NEIGHBOURHOODS, INPUTS = (7, 3, 1)",
        ),
        ("attacks.similarity", "0.03", "0.04"),
    ):
        assert hashed(decoder, module, old, new) != hashed(decoder)
        assert hashed(ridge, module, old, new) == hashed(ridge)
    assert hashed(decoder, "datasets.photos", "384", "320") == hashed(decoder)


def test_no_table_of_components_is_part_of_a_source():
    """Else every new defense would make all records outdated."""
    modules = {base.__module__ for base in DEFENSES["gated_pooling"].__mro__}
    found = closure(frozenset({*modules, source.MAKING}))
    assert {"smashbench.defenses.cem", "smashbench.defenses.groups"} <= found
    assert {"smashbench.bench.experiment.augment", "smashbench.datasets.base"} <= found
    assert not found & {
        f"smashbench.{name}"
        for name in ("defenses", "attacks", "datasets", "bench.experiment.models")
    }
    assert "smashbench.defenses.kmeans_cem" not in found


def test_every_component_has_a_source_of_its_own():
    victim = victim_trial()
    assert len({source_of(attack_trial(victim, name)) for name in ATTACKS}) == len(ATTACKS)
    assert len({source_of(victim_trial(name)) for name in DEFENSES}) == len(DEFENSES)


UNRESOLVED = [
    "from smashbench.attacks.base import gone",
    "from smashbench.gone import something",
    "from smashbench.gone import *",
    "import smashbench.gone",
]


@pytest.mark.parametrize("line", UNRESOLVED)
@pytest.mark.usefixtures("clean")
def test_what_a_plugin_imports_of_another_version_leaves_it_its_source(write, line):
    plug([write(f"try:\n    {line}\nexcept ImportError:\n    pass\n{DEFENSE}")])
    assert source_of(victim_trial("shift"))


@pytest.mark.parametrize("name", ["initech", "globex"])
@pytest.mark.usefixtures("clean")
def test_an_installed_package_has_a_source_whatever_it_lacks(name, tmp_path, monkeypatch):
    """Its file is empty, or it has none; a module is compiled, and some are not there."""
    package, info = tmp_path / name, tmp_path / f"{name}-1.0.dist-info"
    lines = ["from . import gone", "from .. import gone", "from .gone import something"]
    tried = "".join(f"try:\n    {line}\nexcept ImportError:\n    pass\n" for line in lines)
    files = {
        package / "fast.py": "BY = 0.25\n",
        package / "smash.py": f"import {name}\nfrom .fast import BY\n{tried}{DEFENSE}",
        info / "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        info / "entry_points.txt": f"[smashbench.plugins]\nmine = {name}.smash\n",
    }
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    if name == "initech":
        (package / "__init__.py").touch()
    py_compile.compile(str(package / "fast.py"), cfile=str(package / "fast.pyc"))
    (package / "fast.py").unlink()
    monkeypatch.syspath_prepend(tmp_path)
    plug([])
    assert source_of(victim_trial("shift"))


def test_what_this_checkout_lacks_has_none():
    victim = victim_trial()
    assert source_of(attack_trial(victim, "mine")) is None
    assert source_of(victim_trial("mine")) is None
    other = victim.victim.model_copy(update={"model": Component(name="mine", options={})})
    assert source_of(Trial(victim.key, other)) is None
    assert all(map(source_of, suite.load("smoke").trials))


def test_how_attacks_are_run_is_what_records_were_made_with():
    """These decide numbers and are in no trial's hash: whoever changes one raises ``PROTOCOL``, so
    that no record of before counts, and then this test."""
    assert (cell.CHUNK, scoring.ATTACK_FAILED) == (500, 0.95)
    assert 'torch.manual_seed(granted["seed"])' in inspect.getsource(cell)
    assert PROTOCOL == 7
