"""The examples in docstrings are what happens."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import smashbench.attacks
import smashbench.bench
import smashbench.datasets
import smashbench.defenses

PACKAGES = (smashbench.attacks, smashbench.bench, smashbench.datasets, smashbench.defenses)
MODULES = [
    module.name
    for package in PACKAGES
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith(".__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_what_happens(name):
    assert doctest.testmod(import_module(name)).failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    found = [test for name in MODULES for test in finder.find(import_module(name))]
    assert sum(len(test.examples) for test in found) > 0
