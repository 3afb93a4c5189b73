"""What is declared once reaches everything: a metric, a figure, a defense's facts, a colour."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure as Canvas

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.measure import facts_of
from smashbench.bench.experiment.metrics import METRICS, Metric
from smashbench.bench.experiment.results import DefenseFacts, DiagnosticFacts
from smashbench.bench.report import figures, style, svg
from smashbench.bench.report.attributes import LABELS
from smashbench.bench.report.board import Board
from smashbench.bench.report.comparisons import matched
from smashbench.bench.report.figures.surrogates import SURROGATES
from smashbench.bench.report.rows import board_of, read
from smashbench.bench.report.tables import as_text
from smashbench.bench.report.view import floors_in
from smashbench.bench.report.write import write_figures, write_report
from smashbench.bench.run.attempt import attempt
from smashbench.bench.store.saved_suite import save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite import toml
from smashbench.bench.suite.columns import FIXED, is_column
from smashbench.bench.suite.source import source_of
from smashbench.bench.suite.trial import Suite
from smashbench.defenses import DEFENSES
from tests.forge import HASH, attack_trial, keep_attack, keep_victim, victim_trial

TINY = (
    "dataset={use='photos',train=100,val=20,aux=100,test=40}",
    "training.epochs=1",
    "defenses={none={},noise={strengths=[0.3]}}",
    "attacks={mean={},gmm={components=[2],draws=1}}",
)


def mae(x, guess):
    return (x - guess).abs().flatten(1).mean(1)


MAE = Metric(name="mae", label="MAE", better="higher", bounds=(0.0, 1.0), digits=3, score=mae)


def fast(monkeypatch) -> None:
    """No figures but the trade-offs, which take a while as it is."""
    monkeypatch.setattr(figures, "FIGURES", [])


@pytest.mark.slow
def test_a_metric_is_one_entry(tmp_path, monkeypatch, capsys):
    suite = toml.load("smoke", TINY)
    fast(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setitem(METRICS, "mae", MAE)
        for trial in suite.trials:
            done = attempt(trial, folder=tmp_path, data=None, minutes=5)
            assert done.state == "done", done
        save_suite(suite, tmp_path)
        write_report([tmp_path], tmp_path)
        printed = capsys.readouterr().out
        everywhere(tmp_path, suite, printed)
        least = floors_in(read(tmp_path), MAE)
    victim = Store(tmp_path).victim(suite.victims[0].key)
    assert least == {name: values["mae"] for name, values in victim.floors.items()}
    assert 0 < least["thumbnail_4x4"] < least["mean_image"] < 1
    write_report([tmp_path], tmp_path)
    assert "MAE" not in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "leaderboard.csv")
    assert not [name for name in table if "mae" in name]
    assert table["worst_mse"].notna().all()


def everywhere(folder: Path, suite: Suite, printed: str) -> None:
    """The metric is in every table, has a figure and is on the page."""
    store, table = Store(folder), pd.read_csv(folder / "leaderboard.csv")
    for victim, (_, line) in zip(suite.victims, table.iterrows(), strict=True):
        means = {}
        for trial in (each for each in suite.attacks if each.parent == victim.key):
            scores = store.arrays(store.attack(trial.key), "scores")
            assert (scores["mae"] ** 2 <= scores["mse"] * (1 + 1e-5)).all()
            name = trial.attack.label
            means[name] = scores["mae"].mean()
            assert line[f"{name}_mae"] == pytest.approx(means[name], rel=1e-5)
        assert line["worst_mae"] == pytest.approx(min(means.values()), rel=1e-5)
        assert line["worst_mae_attack"] == min(means, key=means.get)
        assert line["worst_mae_low"] < line["worst_mae"] < line["worst_mae_high"]
    records = pd.read_csv(folder / "records.csv").set_index("key")
    for trial in suite.attacks:
        mean = store.attack(trial.key).metrics["mae"].mean
        assert records.loc[trial.key, "mae_mean"] == pytest.approx(mean, rel=1e-5)
    assert (folder / "tradeoff_mae.png").stat().st_size > 500
    page = (folder / "report.html").read_text()
    assert f'<option value="mae">{MAE.axis}</option>' in page
    assert 'id="plot-mae"' in page
    assert re.search(r"mean image [^;]*MAE \.\d{3}", page)
    (head,) = [line for line in printed.splitlines() if line.startswith("defense ")]
    assert "MAE" in head


def kept(folder: Path, defenses=("none", "noise", "mine"), lost=(), **changes) -> Suite:
    """A results folder with a row for each defense; ``lost`` attacks have no record, ``changes``
    are of the victims' records."""
    store, victims = Store(folder), [victim_trial(name) for name in defenses]
    attacks = [attack_trial(victim, name) for victim in victims for name in ("gmm", "decoder")]
    for number, victim in enumerate(victims):
        keep_victim(store, victim, 0.9 - 0.1 * number, **changes)
    for number, trial in enumerate(attacks):
        if (trial.victim.defense.label, trial.attack.label) not in lost:
            keep_attack(store, trial, 0.01 + 0.003 * number)
    suite = Suite("hand", "by hand", tuple(victims), tuple(attacks), "smashbench run hand")
    save_suite(suite, folder)
    return suite


def test_a_figure_is_one_entry(tmp_path, monkeypatch, capsys):
    wanted = [True]

    def draw(board: Board) -> Canvas:
        canvas = Canvas(figsize=(2, 2))
        canvas.text(0.1, 0.5, ", ".join(row.label for row in board.rows))
        return canvas

    extra = figures.Figure(
        name="extra",
        caption="An extra picture of the rows.",
        applies=lambda board: wanted[0],
        draw=draw,
    )
    monkeypatch.setattr(figures, "FIGURES", [extra])
    kept(tmp_path)
    write_report([tmp_path], tmp_path)
    assert "extra.png" in capsys.readouterr().out
    (drawn,) = write_figures(tmp_path, tmp_path / "web", ["extra"], "web")
    assert "none 1, noise 1, mine 1" in drawn.read_text()
    page = (tmp_path / "report.html").read_text()
    shown = r"<summary>An extra picture of the rows.</summary>\s*<figure><div [^>]*>"
    shown += r'<img [^>]*"data:image/webp;'
    assert re.search(shown, page)
    wanted[0] = False
    write_report([tmp_path], tmp_path)
    assert "extra" not in capsys.readouterr().out
    assert not list(tmp_path.glob("extra.*"))
    assert extra.caption not in (tmp_path / "report.html").read_text()


def test_surrogates_are_drawn_where_there_is_a_variance(tmp_path):
    kept(tmp_path)
    board = read(tmp_path)
    assert SURROGATES.applies(board)
    for row in board.rows:
        row.history["class_variance"] *= 0  # one validation image of each class has none
    assert not SURROGATES.applies(board)


def colours(board: Board) -> list[dict[str, str]]:
    """The colour of every defense, in every figure that names them, and on the page."""
    names, found = list(board.by_defense), []
    for figure in figures.figures():
        named = figure.name.startswith("tradeoff_") or figure.name in ("attacks", "surrogates")
        if named and figure.applies(board):
            drawn = figure.draw(board)
            texts = [(t.get_text().split()[0], t.get_color()) for a in drawn.axes for t in a.texts]
            for legend in filter(None, (axes.get_legend() for axes in drawn.axes)):
                pairs = zip(legend.get_texts(), legend.legend_handles, strict=True)
                texts += [(text.get_text(), line.get_color()) for text, line in pairs]
            colour = dict(texts)
            found.append({name: colour[name] for name in names})
    assert len(found) == sum(METRICS[name].brief for name in board.metrics) + 2
    found.append({})
    (panel,) = svg.curves(board, METRICS["mse"])
    for drawn in panel["wide"].split('<g class="c')[1:]:
        found[-1][re.search(r'aria-label="(\w+) 1:', drawn)[1]] = f"c{drawn[0]}"
    inks = {name: re.search(r'class="(c\d)"', symbol)[1] for name, symbol in svg.symbols(board)}
    found.append({name: inks[name] for name in names})
    return found


def test_a_missing_trial_changes_no_colour(tmp_path):
    """Neither in a figure nor on the page, though its defense is not drawn."""
    whole, partial = tmp_path / "whole", tmp_path / "partial"
    kept(whole)
    kept(partial, lost={("none", "gmm")})
    complete, incomplete = read(whole), read(partial)
    assert [row.defense for row in incomplete.complete] == ["noise", "mine"]
    assert style.marks(complete) == style.marks(incomplete)
    for before, after in zip(colours(complete), colours(incomplete), strict=True):
        assert list(before) == ["none", "noise", "mine"]
        assert len(set(before.values())) == 3
        assert after == {name: before[name] for name in ("noise", "mine")}


def test_figures_and_page_have_one_source_of_colours(tmp_path):
    kept(tmp_path)
    board = read(tmp_path)
    for found in colours(board):
        for name, mark in style.marks(board).items():
            assert found[name] in (mark.ink.figure, mark.css)


def test_defenses_of_several_groups_in_one_panel_have_marks_of_their_own():
    """As `gmm_cem` and `dropout_cem` in the figure of surrogates: both are second of a group."""
    found = {"noise": 1, "kmeans_cem": 2, "gmm_cem": 3, "dropout_cem": 3, "class_variance": 4}
    marks = {name: style.Mark(number) for name, number in found.items()}
    apart = style.apart(marks, found)
    assert list(apart.values()) == [style.Mark(number) for number in (1, 2, 3, 4, 5)]
    assert style.apart(marks, ["noise", "dropout_cem"])["dropout_cem"] == style.Mark(3)


FACTS = DefenseFacts(
    role="control",
    noise=0.25,
    diagnostics={
        "my_score": DiagnosticFacts(label="my score, in bananas", column=True),
        "my_other": DiagnosticFacts(label="my other score", logarithmic=True),
    },
)
HISTORY = [
    {"loss": 2.0, "my_score": 1.0, "my_other": 5.0, "undeclared": 7.0},
    {"loss": 1.0, "my_score": 3.0, "my_other": 4.0, "undeclared": 8.0},
]


def test_what_a_defense_declares_is_read_from_its_records(tmp_path):
    """Of a defense that this checkout lacks, under whatever name."""
    assert "mine" not in DEFENSES
    suite = kept(tmp_path, ("mine",), facts=FACTS, history=HISTORY)
    assert source_of(suite.victims[0]) is None
    assert Store(tmp_path).victim(suite.victims[0].key).source == HASH
    board = read(tmp_path)
    (row,) = board.rows
    assert (row.role, row.noise) == ("control", 0.25)
    assert board.controls == [row]
    assert "no_control" not in row.flags
    assert row.broken == {0: pytest.approx(0.1)}
    assert board.diagnostics == FACTS.diagnostics
    frame = board.to_frame()
    assert frame["my_score"].tolist() == [3.0]
    assert not {"my_other", "undeclared"} & set(frame)
    drawn = figures.DIAGNOSTICS.draw(board)
    panels = {axes.get_title(loc="left"): axes for axes in drawn.axes if axes.axison}
    assert list(panels) == ["my score, in bananas\nmine", "my other score\nmine"]
    assert panels["my other score\nmine"].get_yscale() == "log"
    (line,) = panels["my score, in bananas\nmine"].get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [1, 3])


def test_what_is_a_column_of_every_board_is_known(tmp_path):
    """What nothing else may be called is what is in the tables beside attacks and diagnostics."""
    kept(tmp_path, ("none", "noise", "mine"))
    board = read(tmp_path)
    for frame in (board.to_frame(), matched(board)):
        own = re.compile(r"(gmm|decoder)_(mse|ssim|psnr|fvu)(_low|_high)?")
        rest = {name for name in frame if not own.fullmatch(name) and not is_column(name)}
        assert rest == {name for name, facts in board.diagnostics.items() if facts.column}
    made = {re.sub("_(low|high)$", "", name) for name in (*board.to_frame(), *matched(board))}
    assert FIXED - made == {"attribute", "attribute_over_prediction"}
    assert set(LABELS) == FIXED - made


@pytest.mark.parametrize("name", ["accuracy", "worst_fvu", "payload", "accuracy_drop", "gmm_mse"])
def test_a_diagnostic_hides_no_column(tmp_path, name):
    """Of foreign records, too: it is named, whether every board has the column or an attack of
    this one."""
    facts = FACTS.model_copy(update={"diagnostics": {name: FACTS.diagnostics["my_score"]}})
    kept(tmp_path, ("mine",), facts=facts, history=[{name: 7.0}])
    with pytest.raises(BenchError, match=f"two columns of the tables would be called '{name}"):
        read(tmp_path).to_frame()
    hidden = FACTS.model_copy(update={"diagnostics": {name: FACTS.diagnostics["my_other"]}})
    kept(tmp_path / "no column", ("mine",), facts=hidden, history=[{name: 7.0}])
    assert not read(tmp_path / "no column").to_frame().eq(7.0).any().any()


def test_the_group_of_a_defense_is_in_its_record_and_older_records_lack_it():
    declared = {name: facts_of(each((8, 4, 4), 5)).group for name, each in DEFENSES.items()}
    assert declared == {name: each.group for name, each in DEFENSES.items()}
    assert declared["none"] == "baseline"
    assert declared["gmm_cem"] == declared["slot_attention"] == "CEM"
    older = FACTS.model_dump_json(exclude={"group"})
    assert DefenseFacts.model_validate_json(older).group == "other"


@pytest.mark.parametrize("role", ["control", "baseline", "defense"])
def test_a_name_says_nothing(tmp_path, role):
    """A defense called `none` is what its record says."""
    facts = DefenseFacts(role=role, noise=0.0, diagnostics={})
    suite = kept(tmp_path, ("none",), facts=facts)
    board = board_of(suite, Store(tmp_path))
    assert [row.role for row in board.rows] == [role]
    assert bool(board.controls) == (role == "control")
    assert "none" in as_text(board)
