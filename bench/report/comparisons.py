"""Rows compared: with plain noise, with each other over their strengths, and at equal accuracy."""

import numpy as np
import pandas as pd

from smashbench.bench.report.board import Board, Row, RowKey
from smashbench.bench.report.frontier import advantage, privacy_within, ranks
from smashbench.bench.report.losses import DROPS
from smashbench.bench.report.points import DIFFERENCE, estimated, frontier, points
from smashbench.bench.report.statistics import Compared, Estimate, columns, ends, jointly

OVER_NOISE = ("accuracy_over_noise", "mse_over_noise", "fvu_over_noise")
BY_DEFENSE = [
    *("defense", "strengths", "rank_best", "rank_worst"),
    *columns("fvu_over_noise", None),
    *ends("fvu_over_noise_joint", None),
    *("from_accuracy", "to_accuracy"),
    *(
        name
        for drop in DROPS
        for at in (f"at_{100 * drop:.0f}_points",)
        for name in (
            f"reached_{at}",
            *columns(f"fvu_{at}", None),
            *columns(f"fvu_over_noise_{at}", None),
        )
    ),
    "flags",
]
"""Columns of the table of defenses."""


def against_noise(board: Board) -> dict[RowKey, dict[str, Estimate | None]]:
    """For every complete row, differences to plain noise, paired by images.

    ``accuracy_over_noise`` and ``mse_over_noise``: to the baseline's row with the same standard
    deviation of the noise. ``fvu_over_noise``: to the baseline's frontier, which begins at the
    undefended row, at the accuracy of the row, within the accuracies that the baseline was swept
    over (in ``KNOWN`` of the draws, too); ``fvu_over_noise_joint``: the same with intervals that
    hold for all rows at once. All above 0 where the defense is better; None where there is nothing
    to compare with.
    """
    found: dict[RowKey, dict[str, Estimate | None]] = {}
    compared: dict[RowKey, Compared] = {}
    for row in board.complete:
        values: dict[str, Estimate | None] = dict.fromkeys(OVER_NOISE)
        others = board.noise_beside(row)
        noisy = [r for r in board.complete if r.role == "baseline" and r.seeds == row.seeds]
        alike = [r for r in noisy if r is not row and r.noise == row.noise] if row.noise else []
        for metric in ("accuracy", "mse") if alike else ():
            difference = points([row], metric) - points(alike[:1], metric)
            values[f"{metric}_over_noise"] = estimated(difference[0], row)
        if others and row.role == "defense":
            accuracy = points([row], "accuracy")[0]
            there = privacy_within(*frontier(others), accuracy)
            over = points([row], "fvu")[0] - there
            values["fvu_over_noise"] = estimated(over, row)
            if values["fvu_over_noise"]:
                compared[row.key] = over[0], over[1:], row.freedom
        found[row.key] = values
    for key, estimate in jointly(compared, DIFFERENCE).items():
        found[key]["fvu_over_noise_joint"] = estimate
    return found


def by_defense(board: Board) -> pd.DataFrame:
    """A line per defense: its advantage over noise on the accuracies that both were swept over,
    its rank by that, and the privacy at small losses of accuracy. Needs an undefended row to
    measure losses from, and plain noise for the others. Collapsed rows are left out, as there."""
    lines: dict[str, dict[str, object]] = {}
    advantages: dict[str, Estimate] = {}
    compared: dict[str, Compared] = {}
    for name, rows in board.by_defense.items():
        line = lines[name] = {"defense": name, "strengths": len(rows)}
        first, own, others = rows[0], board.swept(name), board.noise_beside(rows[0])
        if others and own and first.role != "control":
            own = others if first.role == "baseline" else own
            over, low, high = advantage(frontier(own), frontier(others))
            if found := estimated(over, first):
                advantages[name] = found
                line |= {"from_accuracy": low[0], "to_accuracy": high[0]}
                if first.role != "baseline":
                    compared[name] = over[0], over[1:], first.freedom
        line["flags"] = " ".join(board.doubts(name))
    for loss in board.losses:
        for at in loss.defenses:
            drop = f"at_{100 * loss.drop:.0f}_points"
            lines[at.defense] |= {f"reached_{drop}": at.reached, **columns(f"fvu_{drop}", at.fvu)}
            if at.role == "defense":
                lines[at.defense] |= columns(f"fvu_over_noise_{drop}", at.over_noise)
    for name, value in advantages.items():
        lines[name] |= columns("fvu_over_noise", value)
    joint = jointly(compared, DIFFERENCE)
    for name, value in joint.items():
        lines[name] |= ends("fvu_over_noise_joint", value)
    placed = ranks([joint.get(name, value) for name, value in advantages.items()])
    for name, (best, worst) in zip(advantages, placed, strict=True):
        lines[name] |= {"rank_best": best, "rank_worst": worst}
    return pd.DataFrame(list(lines.values()), columns=BY_DEFENSE)


def matched(board: Board) -> pd.DataFrame:
    """Defenses at equal accuracy: a line per accuracy drop and defense; none without an undefended
    row to measure from."""
    shown = [name for name, facts in board.diagnostics.items() if facts.column]
    lines: list[dict[str, object]] = []
    for drop in DROPS if board.controls else ():
        accuracy = board.controls[0].accuracy.mean - drop
        for name in board.by_defense:
            if values := at_accuracy(board.swept(name), accuracy, shown):
                line = {"accuracy_drop": drop, "accuracy": accuracy, "defense": name}
                lines.append(line | values)
    names = ["accuracy_drop", "accuracy", "defense", "worst_mse", "worst_ssim", *shown]
    return pd.DataFrame(lines, columns=names)


def at_accuracy(
    rows: list[Row], accuracy: float, diagnostics: list[str]
) -> dict[str, float] | None:
    """Worst-case MSE and SSIM and the last diagnostics of one defense at ``accuracy``: linear
    between its strengths.

    Args:
        rows: one defense at two or more strengths.
        accuracy: between the lowest and the highest accuracy of the rows.
        diagnostics: which ones; those that a row lacks are left out.

    Returns:
        Interpolated values by name, those of SSIM where all rows have some; None where the
        strengths do not reach this accuracy.
    """
    ordered = sorted(rows, key=lambda row: row.accuracy.mean)
    known = [row.accuracy.mean for row in ordered]
    if len(known) < 2 or not known[0] <= accuracy <= known[-1]:
        return None
    values = {
        f"worst_{metric}": [row.worst(metric).mean for row in ordered]
        for metric in ("mse", "ssim")
        if all(row.worst_attack(metric) for row in ordered)
    }
    for name in diagnostics:
        if all(name in row.history for row in ordered):
            values[name] = [float(row.history[name][-1]) for row in ordered]
    return {name: float(np.interp(accuracy, known, each)) for name, each in values.items()}
