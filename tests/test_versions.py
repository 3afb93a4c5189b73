"""Rows that other code measured, or attacked, beside rows of this one."""

import pytest
from matplotlib.text import Text

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.results import IMAGES, VICTIM
from smashbench.bench.report.figures.gallery import GALLERY
from smashbench.bench.report.rows import read
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store

OTHER = "0" * 16


def changed(folder, defense, *, of_attacks, **changes):
    """Writes the records of a defense anew, its victims' or its attacks'."""
    store, suite = Store(folder), read_suite(folder)
    for trial in suite.trials:
        if trial.victim.defense.label == defense and bool(trial.attack) == of_attacks:
            record = store.finished(trial.key)
            scoring = record.scoring | changes.get("scoring", {})
            store.write(record.model_copy(update={**changes, "scoring": scoring}))


def flagged(board):
    return {row.defense for row in board.rows if "other_code" in row.flags}


def test_rows_of_one_code_have_no_flag(copy):
    assert flagged(read(copy)) == set()


def test_a_row_measured_by_other_code_is_compared_and_flagged(copy):
    """As a defense of one's own is, beside a board that was published before."""
    before = read(copy)
    changed(copy, "noise", of_attacks=False, scoring={VICTIM: OTHER})
    board = read(copy)
    assert flagged(board) == {"noise"}
    for ours, theirs in zip(board.rows, before.rows, strict=True):
        assert ours.accuracy == theirs.accuracy
        assert ours.worst() == theirs.worst()


def test_so_is_a_row_that_another_version_of_an_attack_was_run_on(copy):
    changed(copy, "noise", of_attacks=True, source=OTHER)
    assert flagged(read(copy)) == {"noise"}


def test_all_others_are_where_the_undefended_row_is_of_other_code(copy):
    changed(copy, "none", of_attacks=False, scoring={VICTIM: OTHER})
    board = read(copy)
    assert flagged(board) == {row.defense for row in board.rows} - {"none"}


def drawn(board) -> set[str]:
    """The first words of what stands in the gallery: defenses, among others."""
    texts = GALLERY.draw(board).findobj(Text)
    return {word for text in texts for word in text.get_text().split()[:1]}


def test_images_that_other_code_chose_are_not_shown_beside_others(copy):
    board = read(copy)
    shown = [row for row in board.rows if board.has_images(row)]
    assert {"none", "noise"} <= {row.defense for row in shown}
    assert "noise" in drawn(board)
    changed(copy, "noise", of_attacks=False, scoring={IMAGES: OTHER})
    board = read(copy)
    assert [row.defense for row in board.rows if board.has_images(row)] == [
        row.defense for row in shown if row.defense != "noise"
    ]
    assert GALLERY.applies(board)
    assert "noise" not in drawn(board)


@pytest.mark.parametrize("name", ["mse", "fvu"])
def test_rows_of_other_metrics_are_not_compared(copy, name):
    changed(copy, "noise", of_attacks=True, scoring={name: OTHER})
    with pytest.raises(BenchError, match=f"do not agree on the code of {name}"):
        read(copy)
