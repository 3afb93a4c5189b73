"""What a board says, in sentences: who beats noise, and how much its numbers can carry."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from smashbench.bench.experiment.metrics import ACCURACY, METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.losses import (
    TRAININGS,
    AtLoss,
    Loss,
    accurate,
    of_other_seeds,
    to_take,
)
from smashbench.bench.report.quantiles import QUANTILE
from smashbench.bench.report.settled import all_settled, settled, why_open
from smashbench.bench.report.text import estimate, number, signed

SEEDS, ATTACK_SEEDS = 3, 2
"""Victims and attacks per row that a conclusion needs."""
NONE = "nothing is shown to beat noise"
NAMED = 6
"""Most defenses that a sentence lists."""


class Answer(NamedTuple):
    """What to take at one loss of accuracy."""

    loss: str
    headline: str
    details: list[str]


def answers(board: Board) -> list[Answer]:
    """An answer for each loss of accuracy; none without an undefended row to measure losses from.

    A defense beats noise only by an interval that holds for all defenses and losses at once, and
    if it is accurate enough in 97.5 % of the resamples.
    """
    return [_answer(loss, board) for loss in board.losses]


def without_loss(board: Board) -> str:
    """Why there is no loss of accuracy to compare defenses at."""
    there = any(row.role == "control" for row in board.rows)
    which = "complete undefended row: one of its trials is missing" if there else "undefended row"
    return f"There is no {which}, so that there is no loss of accuracy to compare defenses at."


def _answer(loss: Loss, board: Board) -> Answer:
    points = f"{100 * loss.drop:.0f} point{'s' if loss.drop > 0.01 else ''}"
    what = f"at most {points} lost (accuracy {number(loss.accuracy, ACCURACY.digits)} or more)"
    best, noise = loss.best, loss.noise
    if best is None:
        return Answer(what, "no defense is that accurate", [])
    digits = METRICS["fvu"].digits
    highest = f"highest FVU between strengths: {best.defense} {estimate(best.fvu, digits)}"
    if noise and noise is not best:
        highest += f"; noise {estimate(noise.fvu, digits)}"
    details = [_to_take(board, loss.drop), highest]
    others = [each for each in loss.defenses if each.role == "defense"]
    if not others:
        return Answer(what, "nothing but noise is that accurate", details)
    if not any(each.over_noise for each in others):
        details.append(_why_not_compared(loss, board))
        return Answer(what, "not compared with noise", details)
    if best.over_noise is None and _of_other_seeds(best, board):
        details.append(f"{best.defense} was trained from other seeds than noise: not compared")
    elif best.over_noise is None:
        details.append(
            f"swept to accuracy {number(best.least, ACCURACY.digits)}, not compared here"
        )
    else:
        if best is not noise:
            details.append(f"over noise by {difference(best.over_noise, digits)}")
        alike = loss.not_told_apart(best)
        details.append(f"not told apart from {best.defense}: {listed(alike) or 'none'}")
    if best.reached < QUANTILE:
        share = f"{100 * best.reached:.0f} %"
        details.append(f"it is that accurate in {share} of the draws")
    if found := board.doubts(best.defense):
        details.append(f"its rows are flagged: {', '.join(found)}")
    names = [each.defense for each in loss.winners]
    verb = "beats" if len(names) == 1 else "beat"
    return Answer(what, f"{listed(names)} {verb} noise" if names else NONE, details)


def _to_take(board: Board, drop: float) -> str:
    """As it was trained: the highest value lies between two rows, as a rule."""
    row = to_take(board, drop)
    others = [each for each in accurate(board, drop) if each.role != "control"]
    if not others:
        return "no row to take: none is this accurate as it was trained"
    if row is None:
        return f"no row to take: attacks on all that are this accurate {why_open(board, others)}"
    fvu = estimate(row.worst("fvu"), METRICS["fvu"].digits)
    accuracy = number(row.accuracy.mean, ACCURACY.digits)
    return f"the row to take: {row.label}, FVU {fvu} (accuracy {accuracy})"


def _of_other_seeds(at: AtLoss, board: Board) -> bool:
    return of_other_seeds(board, board.by_defense[at.defense][0])


def _why_not_compared(loss: Loss, board: Board) -> str:
    others = [each for each in loss.defenses if each.role == "defense"]
    if all(_of_other_seeds(each, board) for each in others):
        return "all others were trained from other seeds than noise"
    if loss.noise is None or loss.noise.least > loss.accuracy:
        return "noise was not swept to this accuracy"
    if loss.noise.over_noise is None:
        return "noise covers this accuracy in fewer than nine of ten draws"
    return "no other defense was swept to this accuracy"


def headline(board: Board) -> str:
    """The message of the board in a few words: who beats noise at some small loss of accuracy, or
    which of all rows does, or who does over whole sweeps, by intervals that hold at once."""
    name, (compared, better, _) = board.suite.name, _compared(board)
    winners = list(dict.fromkeys(each.defense for loss in board.losses for each in loss.winners))
    if winners := winners or [row.label for row in better]:
        verb = "beats" if len(winners) == 1 else "beat"
        return f"{name}: {listed(winners)} {verb} noise (FVU)"
    if winners := _over_sweeps(board, "better"):
        ends = "s noise over its sweep" if len(winners) == 1 else " noise over their sweeps"
        return f"{name}: {listed(winners)} beat{ends} (FVU)"
    if compared:
        return f"{name}: none of {_counted(len(compared), 'row')} is shown to beat noise (FVU)"
    others = [each for loss in board.losses for each in loss.defenses if each.role == "defense"]
    if any(each.over_noise for each in others):
        return f"{name}: {NONE} (FVU)"
    return f"{name}: privacy against accuracy"


def _compared(board: Board) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows that are compared with noise at equal accuracy; those of them that are better by an
    interval for all of them at once, in several trainings; and those that would be if they were
    settled."""
    joint = "fvu_over_noise_joint"
    found = {key: each[joint] for key, each in board.over_noise.items() if joint in each}
    compared = [row for row in board.rows if row.key in found]
    able = [row for row in compared if len(row.seeds) >= TRAININGS]
    above = [row for row in able if (value := found[row.key]) and value.low > 0]
    better, open_ = ([r for r in above if settled(board, r) is each] for each in (True, False))
    return compared, better, open_


def over_sweeps(board: Board) -> pd.DataFrame:
    """The lines of the table of defenses that are compared with noise over a sweep of several
    strengths, in several trainings; ``better`` and ``worse`` than noise by an interval for all
    defenses at once, and ``open`` where it would be better if its rows were settled."""
    table = board.sweeps
    swept = [
        len(own) > 1 and len(own[0].seeds) >= TRAININGS
        for name in table.defense
        for own in [board.swept(name)]
    ]
    table = table[np.array(swept, bool) & table.fvu_over_noise_joint_low.notna()]
    above, worse = table.fvu_over_noise_joint_low > 0, table.fvu_over_noise_joint_high < 0
    sure = np.array([all_settled(board, name) for name in table.defense], bool)
    return table.assign(better=above & sure, worse=worse, open=above & ~sure)


def _over_sweeps(board: Board, which: str) -> list[str]:
    table = over_sweeps(board)
    return list(table[table[which]].defense)


def difference(value: Sequence[float], digits: int) -> str:
    """A difference and its interval: ``+.07 [-.13, +.21]``.

    >>> difference((0.07, -0.128, 0.208), 2)
    '+.07 [-.13, +.21]'
    """
    mean, low, high = (signed(each, digits) for each in value)
    return f"{mean} [{low}, {high}]"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, at most so many.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def verdict(board: Board) -> list[str]:
    """Sentences about all rows compared with noise, where there are some."""
    compared, better, open_ = _compared(board)
    if not compared:
        return []
    names = ", ".join(row.label for row in better)
    rows = f"{len(compared)} rows are" if len(compared) > 1 else "One row is"
    told = [
        f"{rows} compared with noise at equal accuracy (FVU). Shown to be better, with 95 % "
        f"confidence in all of them at once: {names or 'none'}."
    ]
    victims = min(len(row.seeds) for row in compared)
    attacks = min(row.attack_seeds for row in compared)
    if victims < SEEDS or attacks < ATTACK_SEEDS:
        told.append(
            f"A demonstration, no conclusion: rows have {_counted(victims, 'training')} and "
            f"{_counted(attacks, 'fit')} of their strongest attack at least; a conclusion needs "
            f"{SEEDS} and {ATTACK_SEEDS}."
        )
    if sweeps := _over_sweeps(board, "better"):
        names = ", ".join(sweeps)
        told.append(f"Shown to be better over whole sweeps, in all defenses at once: {names}.")
    swept = _over_sweeps(board, "open")
    if above := dict.fromkeys([*(row.label for row in open_), *swept]):
        why = why_open(board, [*open_, *(row for name in swept for row in board.by_defense[name])])
        told.append(
            f"Above noise, too, and not shown to be better, since their strongest attack {why}: "
            f"{', '.join(above)}."
        )
    return told


def summary(board: Board) -> list[str]:
    """Lines above the table of a run: what was done, an answer for each loss, and the verdict."""
    rows, defenses = len(board.rows), len({row.defense for row in board.rows})
    seeds = max((len(row.seeds) for row in board.rows), default=0)
    first = (
        f"{board.suite.name}: {_counted(rows, 'row')} of {_counted(defenses, 'defense')}, "
        f"{_counted(seeds, 'seed')}, {_counted(len(board.attacks_on_one_release), 'attack')}"
    )
    if board.controls:
        control = board.controls[0]
        accuracy = estimate(control.accuracy, ACCURACY.digits)
        fvu = estimate(control.worst("fvu"), METRICS["fvu"].digits)
        first += f"; undefended: accuracy {accuracy}, FVU {fvu}"
    told = [f"{a.loss}: {'; '.join([a.headline, *a.details[:1]])}" for a in answers(board)]
    told = told or [without_loss(board)]
    return [first, *told, *filter(None, [" ".join(verdict(board))])]


def _counted(number_: int, word: str) -> str:
    return f"{number_} {word}{'' if number_ == 1 else 's'}"
