"""What a board says, in sentences: who beats noise, and how much its numbers can carry."""

from smashbench.bench.report.board import Board

SEEDS, ATTACK_SEEDS = 3, 2
"""Victims and attacks per row that a conclusion needs."""


def verdict(board: Board) -> list[str]:
    """Sentences about the comparison with noise, where there is one."""
    joint = "fvu_over_noise_joint"
    compared = {key: found[joint] for key, found in board.over_noise.items() if joint in found}
    if not compared:
        return []
    winners = [key for key, value in compared.items() if value and value.low > 0]
    names = ", ".join(row.label for row in board.rows if row.key in winners)
    rows = f"{len(compared)} rows are" if len(compared) > 1 else "One row is"
    told = [
        f"{rows} compared with noise at equal accuracy (FVU). Better, with 95 % confidence in all "
        f"of them at once: {names or 'none'}."
    ]
    shown = [row for row in board.rows if row.key in compared]
    victims = min(len(row.seeds) for row in shown)
    attacks = min(row.attack_seeds for row in shown)
    if victims < SEEDS or attacks < ATTACK_SEEDS:
        told.append(
            f"A demonstration: a conclusion needs {SEEDS} victim seeds and {ATTACK_SEEDS} attack "
            f"seeds for every row, and some row has {victims} and {attacks}."
        )
    return told
