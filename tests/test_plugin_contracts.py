"""``smashbench check``: which promises a component of one's own breaks, in words."""

from pathlib import Path

import pytest

from smashbench.bench.suite.plugins import LOADED
from smashbench.datasets import DATASETS
from smashbench.defenses import DEFENSES
from tests.plugged import ATTACK, DEFENSE, METRIC, unplugged

pytestmark = pytest.mark.usefixtures("clean")


def here_again(here, path: Path) -> str:
    with unplugged():
        LOADED.clear()
        del DEFENSES["shift"]
        return here("check", path).stdout


@pytest.mark.slow
def test_what_breaks_a_contract_is_explained(write, here):
    broken = DEFENSE.replace("z + self.by", "(z + self.by)[:, :1]").replace(
        "*, by: float = 0.5", "*, by: float"
    )
    done = here("check", write(broken))
    assert done.returncode == 1
    assert "FAILED  its options are keyword-only" in done.stdout
    assert "its option 'by' has no default" in done.stdout
    done = here("check", write(DEFENSE.replace("z + self.by", "z + self.gone"), "other.py"))
    assert done.returncode == 2  # its name is taken
    with unplugged():
        LOADED.clear()
        del DEFENSES["shift"]
        wrong = DEFENSE.replace("z + self.by", "z * float('nan')").replace("by: how far.", "")
        done = here("check", write(wrong, "third.py"))
    assert "its option 'by' is not in its docstring" in done.stdout
    assert "releases have values that are not finite" in done.stdout
    with unplugged():
        LOADED.clear()
        del DEFENSES["shift"]
        done = here("check", write(DEFENSE.replace("z + self.by", "z - z.mean(0)"), "batch.py"))
    assert done.stdout.count("FAILED") == 1
    assert "depends on the other images of its batch, but a client has one image" in done.stdout
    assert "kept, 0 broken" in here_again(here, write(DEFENSE, "fourth.py"))
    misspelt = DEFENSE.replace("def transform", "def tranform")
    assert "'tranform' overrides nothing: is 'transform' meant?" in here_again(
        here, write(misspelt, "fifth.py")
    )
    without = DEFENSE.replace("        super().__init__(shape, classes)\n", "")
    assert "call super().__init__(shape, classes) first" in here_again(
        here, write(without, "no.py")
    )


def test_what_cannot_be_checked_without_data_is_not_said_to_be_kept(write, here, sets):
    """A data set that needs a folder; one that forgets to return what it loaded."""
    source = """
from smashbench.datasets import Split
from smashbench.datasets.fashion_mnist import FashionMnist


class Mine(FashionMnist):
    \"\"\"Clothes.

    Args:
        n: of training images.
        n_test: of test images.
        seed: of the split.
    \"\"\"


DATASETS = {"mine": Mine}
"""
    done = here("check", write(source))
    assert done.stdout.count("not checked, give --data DIR") == 3
    assert "6 promises kept, 0 broken" in done.stdout
    with unplugged():
        LOADED.clear()
        del DATASETS["mine"]
        done = here("check", write(source, "again.py"), "--data", sets)
        assert "9 promises kept, 0 broken" in done.stdout
    with unplugged():
        LOADED.clear()
        del DATASETS["mine"]
        nothing = "    def load(self, root):\n        super().load(root)\n\n\nDATASETS ="
        done = here(
            "check", write(source.replace("\nDATASETS =", nothing), "no.py"), "--data", sets
        )
        assert "load returns NoneType: should be Split.build(...)" in done.stdout


def test_what_is_wrong_with_an_engine_is_what_check_says(write, here, refused):
    """Loading it for a run says so, and points here."""
    engine = "from smashbench.bench.run.engines import Engine\n\n\n"
    engine += "class Lazy(Engine):\n    pass\n\n\nENGINES = {'lazy': Lazy}\n"
    path = write(engine)
    refused(["list", "--plugin", path], "'lazy' has no close, submit, wait, workers", "check mine")
    done = here("check", path)
    assert done.returncode == 1
    assert "FAILED  it has all methods of an engine" in done.stdout
    assert "it has no close, submit, wait, workers" in done.stdout


def test_a_metric_that_tables_could_not_show_breaks_its_contract(write, here):
    done = here("check", write(METRIC.replace('"mae"', '"accuracy"')))
    assert done.returncode == 1
    assert "it would have columns of the tables that are something else's" in done.stdout


def test_an_attack_that_ends_the_program_breaks_promises_and_the_others_are_tested(write, here):
    quitting = ATTACK.replace("self.images_ = knowledge.images", "raise SystemExit(0)")
    done = here("check", write(quitting))
    assert done.returncode == 1
    assert "it ends the program, by sys.exit(0): raise an error that says why" in done.stdout
    assert "6 promises kept, 4 broken" in done.stdout


def test_a_figure_has_no_contract_beyond_its_type(write, here):
    figure = "from smashbench.bench.report.figures import Figure\n"
    figure += "FIGURES = [Figure(name='mine', caption='', applies=lambda b: True, draw=None)]\n"
    done = here("check", write(figure))
    assert done.returncode == 0
    assert "it has no contract beyond that\n0 promises kept, 0 broken" in done.stdout
