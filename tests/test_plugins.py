"""Components from outside: loaded, refused with a reason, hashed, kept, and asked for again."""

import hashlib
import json
import sys

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.plugged import plug
from smashbench.bench.suite import toml
from smashbench.bench.suite.plugins import LOADED, load_plugin
from smashbench.bench.suite.source import scoring_of, source_of
from smashbench.defenses import DEFENSES
from tests.forge import HASH
from tests.forge import victim_trial as trial_of
from tests.plugged import ATTACK, DEFENSE, METRIC, unplugged

pytestmark = pytest.mark.usefixtures("clean")
SMALL = (
    *("--set", "attacks={mean={}}", "--set", "seeds=[0]", "--set", "training.epochs=1"),
    *("--set", "dataset={use='photos',train=100,val=20,aux=100,test=40}"),
)


def test_a_file_adds_what_its_tables_hold_and_nothing_twice(write):
    path = write(DEFENSE + METRIC)
    (loaded,) = plug([path])
    assert loaded.tables == {"DEFENSES": ("shift",), "METRICS": ("mae",)}
    assert DEFENSES["shift"].__name__ == "Shift"
    assert METRICS["mae"].label == "MAE"
    assert plug([path]) == [loaded]
    with pytest.raises(BenchError, match=r"another mine\.py is loaded; rename one"):
        load_plugin(write(DEFENSE + "x = 1"))


FIGURE = (
    "from smashbench.bench.report.figures import Figure\n"
    "FIGURES = [Figure(name='{}', caption='', applies=lambda b: True, draw=None)]\n"
)
BAD = [
    ("x = ", r"mine\.py, line 1: SyntaxError"),
    ("import no_such_module", r"mine\.py, line 1: ModuleNotFoundError"),
    ("x = 1\ny = 1 / 0", r"mine\.py, line 2: ZeroDivisionError"),
    ("raise SystemExit(3)", r"mine\.py, line 1: SystemExit"),
    ("class Mine: pass", "adds nothing; give it a table"),
    ("DEFENSES = {}", "adds nothing"),
    ("DEFENSES = 3", "should be a table"),
    ("class A: pass\nDEFENSES = {'a': A}", "should be a subclass of Defense"),
    ("DEFENSES = {'a': 3}", "should be a subclass of Defense; it is 3"),
    (DEFENSE + "DEFENSES = {'Shift': Shift}", "names are lower case"),
    (DEFENSE + "DEFENSES = {3: Shift}", "names are lower case"),
    (DEFENSE + "DEFENSES = {'noise': Shift}", "this name is taken by another defense; rename it"),
    (DEFENSE + "METRICS = {'a': Shift}", "should be a Metric object"),
    (METRIC + "METRICS = {'other': MAE}", "calls itself 'mae'; use one name"),
    (DEFENSE + "FIGURES = {}", "should be a list of Figure objects"),
    (DEFENSE + "FIGURES = [3]", "names are lower case"),
    (FIGURE.format("tradeoff_mine"), "names that begin with 'tradeoff_' are made here"),
    (FIGURE.format("mine") + "FIGURES *= 2", "has two that are called 'mine'; rename one"),
    (DEFENSE + "ENGINES = {'mine': Shift}", "should be a subclass of Engine"),
]


@pytest.mark.parametrize(("source", "words"), BAD)
def test_what_is_no_plugin_is_one_error_and_adds_nothing(write, source, words, monkeypatch):
    before = list(DEFENSES)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    with pytest.raises(BenchError, match=words):
        plug([write(source)])
    assert list(DEFENSES) == before
    assert not LOADED


def test_a_name_that_is_no_python_file_is_refused(write, refused, tmp_path):
    refused(["list", "--plugin", tmp_path / "none.py"], "plug-in", "No such file")
    refused(["list", "--plugin", write("", "my-defense.py")], "letters, digits and underscores")
    refused(["list", "--plugin", tmp_path], "should be a Python file")


def test_a_plugin_has_a_source_and_its_edits_count(write):
    def sources(text: str) -> tuple[str | None, str]:
        with unplugged():
            plug([write(text)])
            return source_of(trial_of("shift")), scoring_of(trial_of("none"))["mae"]

    whole = DEFENSE + METRIC
    plain = sources(whole)
    assert sources("# mine\n" + whole.replace("Shifts the", "It shifts the")) == plain
    edited = sources(whole.replace("z + self.by", "z - self.by"))
    assert edited[0] != plain[0]  # a file is one: its metric counts as edited, too
    assert source_of(trial_of("shift")) is None


def test_a_name_of_another_kind_changes_no_source(write):
    """A defense may be called like an attack, and neither is of the other's code."""
    suite = toml.load("smoke", ["seeds=[0]"])
    attack = next(trial for trial in suite.attacks if trial.attack.name == "decoder")
    before = source_of(attack), scoring_of(attack)
    plug([write(DEFENSE.replace('"shift":', '"decoder":'))])
    assert "decoder" in DEFENSES
    assert (source_of(attack), scoring_of(attack)) == before


def test_a_suite_names_its_plugins_by_paths_from_its_own_folder(write, tmp_path, refused, here):
    write(DEFENSE)
    text = (toml.SUITES / "smoke.toml").read_text()
    suite = write('plugins = ["mine.py"]\n' + text + "[defenses.shift]\n", "suite.toml")
    assert "shift" in here("run", suite, "--dry-run", "--out", tmp_path / "out").stdout
    (plugin,) = toml.load(str(suite)).plugins
    assert plugin.sha256 == hashlib.sha256(DEFENSE.encode()).hexdigest()
    suite.write_text(text.replace("description", 'plugins = "mine.py"\ndescription', 1))
    refused(["run", suite, "--dry-run"], "should be a list")


@pytest.mark.slow
def test_a_run_keeps_the_source_and_a_rerun_asks_for_it(write, tmp_path, here, refused):
    path, out = write(DEFENSE), tmp_path / "out"
    command = ["run", "smoke", "--plugin", path, "--out", out, *SMALL, "--workers", 1]
    command += ["--set", "defenses={none={},shift={strengths=[0.25]}}"]
    done = here(*command)
    assert done.returncode == 0, done.stderr
    assert "shift" in done.stdout
    assert (out / "plugins" / "mine.py").read_text() == DEFENSE
    saved = json.loads((out / "suite.json").read_text())
    assert saved["plugins"][0]["name"] == "mine.py"
    assert f"--plugin {path}" in saved["command"]
    with unplugged():
        LOADED.clear()
        del DEFENSES["shift"]
        assert "4 trials: 3 done, 1 unverified" in here("status", out).stdout
        assert "shift" in here("report", out).stdout
        refused(["rerun", out], "mine.py", f"--plugin {out / 'plugins' / 'mine.py'}")
    with unplugged():
        LOADED.clear()
        DEFENSES.pop("shift", None)
        write(DEFENSE.replace("z + self.by", "z - self.by"))
        text = here("status", out, "--plugin", path).stdout
        assert "2 outdated" in text
        assert f"smashbench rerun {out} --plugin {path}\n" in f"{text}\n"
        done = here("rerun", out, "--plugin", path, "--workers", 1)
        assert done.returncode == 0, done.stderr
        assert "- self.by" in (out / "plugins" / "mine.py").read_text()
        (before,) = (out / "plugins" / "before").iterdir()
        assert before.read_text() == DEFENSE
        assert "4 done" in here("status", out, "--plugin", path).stdout


def test_a_foreign_suite_cannot_name_a_plugin_elsewhere(folder, refused):
    path = folder / "suite.json"
    content = json.loads(path.read_text())
    for name in ("../mine.py", "/etc/mine.py", "", "a b"):
        content["plugins"] = [{"name": name, "sha256": 4 * HASH}]
        path.write_text(json.dumps(content))
        refused(["report", folder], "is altered", "plugins")


def test_a_plugin_may_import_everything_of_a_module(write):
    """Its source is that of the module."""
    plug([write("from smashbench.defenses.base import *\n" + DEFENSE)])
    (trial, *_) = toml.load("smoke", ["defenses={none={},shift={strengths=[0.5]}}"]).victims[1:]
    assert source_of(trial)


DIAGNOSED = (
    DEFENSE.replace("import Defense", "import Defense, Diagnostic")
    .replace("{", "{{")
    .replace("}", "}}")
    .replace('"by"', '"by"\n    diagnostics = {{"{name}": Diagnostic("mine", column=True)}}')
)


def test_a_diagnostic_that_is_no_column_has_any_name(write):
    (loaded,) = plug([write(DIAGNOSED.format(name="accuracy").replace(", column=True", ""))])
    assert loaded.tables == {"DEFENSES": ("shift",)}


UNUSABLE = [
    (DEFENSE.replace("by: float", "by"), "an option whose type cannot be read"),
    (DEFENSE.replace("by: float = 0.5", "by: 'Gone' = 0.5"), "whose type cannot be read"),
    (DEFENSE.replace("by: float = 0.5", "by: float"), "has no default for its option 'by'"),
    (DEFENSE.replace("= 0.5", "= 'far'"), "has defaults that are not valid: by = 'far'"),
    (
        DEFENSE.replace('    strength = "by"', '    of_model = {"nope": "channels"}'),
        "of_model for 'nope', which is none of its options",
    ),
    (DEFENSE.replace('"by"', '"nope"'), "strength = 'nope', which is none of its options"),
    (
        DEFENSE.replace("by: float = 0.5", "by: str = 'a'"),
        "strength = 'by', whose default is no number",
    ),
    (DEFENSE.replace("by: float = 0.5", "by: bool = True"), "whose default is no number"),
    (DEFENSE.replace("by: float", "use: float").replace("= by", "= use"), "a word that suites use"),
    (ATTACK.replace("closed_form", "closed"), "should have a kind, one of floor, closed_form"),
    (ATTACK.replace('    kind = "closed_form"\n', ""), "should have a kind"),
    (ATTACK.replace("def reconstruct", "def rebuild"), "has no reconstruct"),
    ("import helpers_of_mine", "a plug-in is one file"),
    (DIAGNOSED.format(name="accuracy"), "has a diagnostic 'accuracy', which is a column"),
    (DIAGNOSED.format(name="worst_fvu"), "has a diagnostic 'worst_fvu', which is a column"),
    (DIAGNOSED.format(name="accuracy_drop"), "a diagnostic 'accuracy_drop', which is a column"),
    (METRIC.replace('"higher"', '"bigger"'), "has better = 'bigger': should be 'higher' or"),
    (METRIC.replace("(0.0, 1.0)", "(1.0, 0.0)"), r"has bounds = \(1.0, 0.0\): should be"),
    (METRIC.replace("(0.0, 1.0)", "1.0"), r"has bounds = 1.0: should be \(low, high\)"),
    (METRIC.replace("digits=3", "digits=-1"), "has digits = -1"),
    (METRIC.replace('label="MAE"', 'label=""'), "has no label"),
    (METRIC.replace("score=mae", "score=None"), "either `score`, or `derive`"),
    (METRIC.replace("score=mae", "of='msee', derive=mae"), "derived `of` 'msee': should be the"),
    (METRIC.replace("score=mae", "of='fvu', derive=mae"), "derived `of` 'fvu': should be the name"),
    (METRIC.replace('"mae"', '"accuracy"'), "'accuracy' would have columns of the tables"),
    (METRIC.replace('"mae"', '"attack"'), "'attack' would have columns of the tables"),
    (METRIC.replace('"mae"', '"mse_attack"'), "'mse_attack' would have columns of the tables"),
    (METRIC.replace('"mae"', '"mse_low"'), "'mse_low' would have columns of the tables"),
]


@pytest.mark.parametrize(("source", "words"), UNUSABLE)
def test_what_no_suite_could_make_is_refused_when_it_is_loaded(write, source, words):
    with pytest.raises(BenchError, match=words):
        plug([write(source)])
    assert not LOADED


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("self.by = by / 0", "ZeroDivisionError: float division by zero"),
        ("raise SystemExit('no')", "SystemExit: no"),
    ],
)
def test_a_defense_that_cannot_be_made_is_one_error_with_its_line(write, refused, statement, error):
    """Whatever its constructor raises, alone and in a stack."""
    path = write(DEFENSE.replace("self.by = by", statement))
    line = path.read_text().splitlines().index(f"        {statement}") + 1
    where = f"cannot be made: {error} (mine.py, line {line})"
    for defense in ("shift={}", 'both={use=["noise","shift"]}'):
        label = defense.partition("=")[0]
        command = ["run", "smoke", "--plugin", path, "--dry-run", "--set", f"defenses.{defense}"]
        refused(command, f"defenses.{label}: {where}")


def test_options_that_a_defense_refuses_without_a_word_are_refused(write, refused):
    path = write(DEFENSE.replace("self.by = by", "raise ValueError"))
    command = ["run", "smoke", "--plugin", path, "--dry-run", "--set", "defenses.shift={}"]
    refused(command, "defenses.shift: cannot be made: ValueError")


def test_a_data_set_that_loads_nothing_is_one_error(write, refused, tmp_path):
    """Its author forgot the return."""
    source = "from smashbench.datasets import Dataset\n\n\nclass Mine(Dataset):\n"
    source += "    def load(self, root=None):\n        pass\n\n\nDATASETS = {'mine': Mine}\n"
    command = ["run", "smoke", "--plugin", write(source), "--set", "dataset={use='mine'}"]
    refused([*command, "--out", tmp_path / "run"], "'mine' loads NoneType, not a Split")
    assert not (tmp_path / "run").exists()


def test_a_model_that_cannot_be_made_is_listed_with_the_reason(write, here):
    model = (
        "from smashbench.bench.experiment.models import Model\n\n\n"
        'class Broken(Model):\n    """Broken."""\n\n    def __init__(self) -> None:\n'
        "        raise RuntimeError('no')\n\n    def build(self, image_shape, classes):\n"
        "        ...\n\n\nMODELS = {'broken': Broken}\n"
    )
    done = here("list", "--plugin", write(model))
    assert done.returncode == 0
    assert "Broken.: cannot be built for 32x32 images: RuntimeError: no" in done.stdout


@pytest.mark.slow
def test_a_figure_that_cannot_be_drawn_is_one_error_after_the_tables(write, folder, refused):
    figure = "from smashbench.bench.report.figures import Figure\n"
    figure += "FIGURES = [Figure(name='mine', caption='', applies=lambda b: True, draw=None)]\n"
    for source, words in (
        (figure, "the figure 'mine' cannot be drawn: TypeError"),
        (figure.replace("lambda b: True", "lambda b: 1 / 0"), "cannot be drawn: ZeroDivisionError"),
    ):
        with unplugged():
            refused(["report", folder, "--plugin", write(source)], words, "leave out its --plugin")
    assert (folder / "leaderboard.csv").is_file()


def test_a_metric_that_cannot_be_derived_is_one_error(write, folder, refused):
    derived = METRIC.replace("score=mae", "of='mse', derive=lambda error, floor: error / (1 - 1)")
    refused(["report", folder, "--plugin", write(derived)], "'mae' cannot be derived", "Warning")
    with unplugged():
        LOADED.clear()
        METRICS.pop("mae", None)
        short = derived.replace("error / (1 - 1)", "error[..., :0]")
        refused(["report", folder, "--plugin", write(short)], "'mae' is derived as")
