"""Do the surrogates tell the truth?"""

import numpy as np
from matplotlib.figure import Figure as Canvas

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.axes import logarithmic
from smashbench.bench.report.figures.base import Figure, inches, write_title
from smashbench.bench.report.figures.texts import Text, write
from smashbench.bench.report.style import SOFT, apart, marks
from smashbench.bench.report.verdict import listed

MANY = 12
"""Most defenses that are all named; of more, those without a surrogate are grey."""


def _surrogate(row: Row) -> str:
    """The name of its surrogate, that of its first part that has one for a stack; or nothing."""
    names = (name for name in row.diagnostics if f"_{name}".endswith("_surrogate"))
    return next((name for name in names if row.measured(name)), "")


def _last(row: Row, diagnostic: str) -> float:
    """In the last epoch; NaN where it was not measured."""
    found = row.last(diagnostic)
    return float("nan") if found is None else found


def _named(board: Board) -> list[str]:
    """Defenses that are not grey, whether their rows are complete or not."""
    first: dict[str, Row] = {}
    for row in board.rows:
        first.setdefault(row.defense, row)
    few = len(first) <= MANY
    return [name for name, row in first.items() if few or row.role != "defense" or _surrogate(row)]


def _draw(board: Board) -> Canvas:
    """What a surrogate says against the true variance, and that variance against the worst case;
    a curve per defense over its strengths."""
    styles = apart(marks(board), _named(board))
    said_texts: list[Text] = []
    texts: list[Text] = []
    canvas = Canvas(figsize=inches(9.5, 4), layout="constrained")
    left, right = canvas.subplots(1, 2)
    for name, group in board.by_defense.items():
        variance = [_last(row, "class_variance") for row in group]
        worst = [row.worst("mse").mean for row in group]
        if name not in styles:
            right.plot(variance, worst, color=SOFT, marker="o", markersize=3, lw=0.6, alpha=0.5)
            continue
        ink = styles[name].ink.figure
        if surrogate := _surrogate(group[0]):
            said = [_last(row, surrogate) for row in group]
            left.plot(said, variance, **styles[name].line)
            if np.isfinite([said[-1], variance[-1]]).all():
                said_texts.append(Text(said[-1], variance[-1], name, ink, first=True))
        right.plot(variance, worst, **styles[name].line)
        if np.isfinite(variance[-1]):
            texts.append(Text(variance[-1], worst[-1], name, ink, first=True))
    left.set_xlabel("surrogate at the end of training (its own units)")
    left.set_ylabel("true within-class variance")
    right.set_xlabel("true within-class variance")
    right.set_ylabel("worst-case MSE")
    logarithmic(left, "x", "y")
    logarithmic(right, "x")
    write_title(canvas, _message(board))
    for axes, own in ((left, said_texts), (right, texts)):
        write(axes, own)
    return canvas


def _message(board: Board) -> str:
    """Of which defenses a lower surrogate comes with a lower variance, strength by strength."""
    agree: dict[bool, list[str]] = {True: [], False: []}
    for name, group in board.by_defense.items():
        if len(group) > 1 and (surrogate := _surrogate(group[0])):
            pairs = sorted((_last(row, surrogate), _last(row, "class_variance")) for row in group)
            variances = [variance for _, variance in pairs]
            agree[variances == sorted(variances)].append(name)
    told = [f"with a lower surrogate: {listed(agree[True])}"] if agree[True] else []
    told += [f"not always: {listed(agree[False])}"] if agree[False] else []
    if not told:  # no defense has two strengths yet
        return f"{board.suite.name}: surrogates and the true variance within classes"
    return f"{board.suite.name}: mean variance within classes falls {'; '.join(told)}"


def _applies(board: Board) -> bool:
    """Where there is a surrogate, and a variance: one validation image of each class has none."""
    return any(_surrogate(row) and _last(row, "class_variance") > 0 for row in board.complete)


SURROGATES = Figure(
    name="surrogates",
    caption="Do the surrogates tell the truth? What they say against the true variance within "
    "classes, and that against the worst case. Grey, where many are shown: defenses without one.",
    applies=_applies,
    draw=_draw,
)
