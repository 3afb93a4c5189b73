"""Do the surrogates tell the truth?"""

from matplotlib.figure import Figure as Canvas

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.axes import logarithmic
from smashbench.bench.report.figures.base import Figure
from smashbench.bench.report.style import marks


def _surrogate(row: Row) -> str:
    """The name of its surrogate, that of its first part that has one for a stack; or nothing."""
    names = (name for name in row.diagnostics if f"_{name}".endswith("_surrogate"))
    return next((name for name in names if row.measured(name)), "")


def _draw(board: Board) -> Canvas:
    """What a surrogate says against the true variance, and that variance against the worst case;
    a curve per defense over its strengths."""
    styles = marks(board)
    canvas = Canvas(figsize=(9.5, 4), layout="constrained")
    left, right = canvas.subplots(1, 2)
    for name, group in board.by_defense().items():
        variance = [row.last("class_variance") for row in group]
        worst = [row.worst("mse").mean for row in group]
        if surrogate := _surrogate(group[0]):
            said = [row.last(surrogate) for row in group]
            left.plot(said, variance, **styles[name].line)
        right.plot(variance, worst, label=name, **styles[name].line)
    left.set_xlabel("surrogate at the end of training (its own units)")
    left.set_ylabel("true within-class variance")
    right.set_xlabel("true within-class variance")
    right.set_ylabel("worst-case MSE")
    logarithmic(left, "x", "y")
    logarithmic(right, "x")
    canvas.legend(loc="outside right upper")
    return canvas


SURROGATES = Figure(
    name="surrogates",
    caption="Do the surrogates tell the truth? What they say against the true variance within "
    "classes, and that against the worst case.",
    applies=lambda board: any(map(_surrogate, board.complete)),
    draw=_draw,
)
