"""The flags: reasons to distrust or to qualify a row, each with the rule that raises it."""

from collections.abc import Callable
from typing import NamedTuple

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.losses import of_other_seeds

CONTROL_FAILED = 0.5
"""FVU above which the undefended victim counts as not broken."""


class Flag(NamedTuple):
    """A flag.

    Args:
        name: in tables and on the page.
        text: what it means.
        raised: whether a row of a board deserves it.
        doubt: whether it is a reason to distrust the row's numbers.
        relative: whether other rows of the board decide it, too.
    """

    name: str
    text: str
    raised: Callable[[Row, Board], bool]
    doubt: bool = True
    relative: bool = False


def raise_flags(board: Board) -> None:
    """Sets the flags of every row. Where none of its attacks on one release has finished, all that
    can be said is that it is incomplete."""
    for row in board.rows:
        flags = FLAGS if row.on_one_release else (INCOMPLETE,)
        found = [flag for flag in flags if flag.raised(row, board)]
        row.flags = [flag.name for flag in found]
        row.doubts = [flag.name for flag in found if flag.doubt]


def _of_other_code(row: Row, board: Board) -> bool:
    ours = board.controls[0].versions if board.controls else row.versions
    return any(ours[name] != row.versions[name] for name in ours.keys() & row.versions.keys())


def _not_converged(row: Row, board: Board) -> bool:
    strongest = row.strongest("trained")
    return bool(strongest) and not row.attacks[strongest].converged


def _simple_beats_strong(row: Row, board: Board) -> bool:
    simple, strong = row.strongest("closed_form"), row.strongest("trained")
    if not (simple and strong):
        return False
    return row.attacks[simple].estimates["mse"].mean < row.attacks[strong].estimates["mse"].mean


def _control_failed(row: Row, board: Board) -> bool:
    return max(_broken(row, board).get(seed, 0.0) for seed in row.seeds) > CONTROL_FAILED


def _broken(row: Row, board: Board) -> dict[int, float]:
    """Of the undefended rows of a row's network and training, seed to the highest of the FVUs
    that their strongest attacks leave."""
    alike = [other.broken for other in board.rows if other.otherwise == row.otherwise]
    return {seed: max(each.get(seed, 0.0) for each in alike) for seed in set().union(*alike)}


def _beyond_noise(row: Row, board: Board) -> bool:
    if row.role != "defense" or row.missing or row.otherwise or not board.noise_beside(row):
        return False
    return board.over_noise[row.key]["fvu_over_noise"] is None


def _other_seeds(row: Row, board: Board) -> bool:
    compared = row.role == "defense" and not (row.missing or row.otherwise)
    return compared and of_other_seeds(board, row)


def _no_control(row: Row, board: Board) -> bool:
    return not _broken(row, board).keys() >= set(row.seeds)


INCOMPLETE = Flag(
    "incomplete",
    "A trial of the row is missing, perhaps its strongest attack: the row is not drawn and not "
    "compared.",
    lambda row, board: row.missing > 0,
)
FLAGS = (
    INCOMPLETE,
    Flag(
        "outdated",
        "A trial of the row was made by code that has changed since, and was not done again: run "
        "anew, its numbers may differ.",
        lambda row, board: row.of_other_code > 0,
    ),
    Flag(
        "other_code",
        "It was attacked, or its accuracy measured, by other code than the undefended row: some of "
        "the difference may be the code's.",
        _of_other_code,
        relative=True,
    ),
    Flag(
        "not_converged",
        "Its strongest trained attack ended on its budget, while doubling its training still "
        "lowered its own validation error.",
        _not_converged,
    ),
    Flag(
        "attack_failed",
        "Every attack is within 5 % of the mean image: a perfect defense, or poor attacks.",
        lambda row, board: all(attack.failed for attack in row.on_one_release.values()),
    ),
    Flag(
        "bound_violated",
        "An attack is better than the lower bound or the known optimum allow: a mistake somewhere.",
        lambda row, board: (
            row.worst("mse").high < max(row.bound or 0, row.optimum or 0) * (1 - 1e-6)
        ),
    ),
    Flag(
        "simple_beats_strong",
        "A closed form beats the trained decoder: distrust the decoder.",
        _simple_beats_strong,
    ),
    Flag(
        "utility_collapse",
        "Accuracy is near chance, for a seed of the row at least.",
        lambda row, board: row.collapsed,
        doubt=False,
    ),
    Flag(
        "randomized",
        "Two releases of one image differ.",
        lambda row, board: row.randomized,
        doubt=False,
    ),
    Flag(
        "control_failed",
        "For a seed of the row, the attacks leave more than half of the undefended images' "
        "variance unexplained, too: the row says nothing about privacy.",
        _control_failed,
        relative=True,
    ),
    Flag(
        "beyond_noise",
        "Noise does not cover its accuracy, as measured and in nine of ten resamples: it is not "
        "compared with noise at equal accuracy.",
        _beyond_noise,
        doubt=False,
        relative=True,
    ),
    Flag(
        "other_seeds",
        "It was trained from other seeds than noise, or another number of times: it is not "
        "compared with noise.",
        _other_seeds,
        doubt=False,
        relative=True,
    ),
    Flag(
        "other_training",
        "Its network or training is not that of the first folder: it is not drawn and not "
        "compared.",
        lambda row, board: row.otherwise,
        relative=True,
    ),
    Flag(
        "no_control",
        "For a seed of the row, nothing undefended was attacked.",
        _no_control,
        relative=True,
    ),
    Flag(
        "fewer_attacks",
        "Other rows were attacked in more ways: their worst cases are not alike.",
        lambda row, board: (
            not row.missing and bool(board.attacks_on_one_release - set(row.attacks))
        ),
        relative=True,
    ),
)
"""In the order in which they are listed."""
