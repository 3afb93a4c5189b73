"""Writes the tables of docs/cifar10.md and README.md anew, from the published boards: ``python
results/tables.py``. Bold is a mean whose interval for all lines at once excludes 0; above 0 only if
attacks had converged, as in a report."""

from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).parent
BOARDS = ("zoo", "fashion_mnist", "tiny_imagenet", "cifar10")
"""Of the columns of the table in README.md."""
CIFAR10, README = RESULTS.parent / "docs" / "cifar10.md", RESULTS.parent / "README.md"
OVER, JOINT = "fvu_over_noise", "fvu_over_noise_joint"


def sweeps(board: str) -> list[str]:
    """A line per defense of a board, the best first."""
    rows, lines = read(board, "leaderboard").set_index("defense").strength, []
    for name, line in compared(board).iterrows():
        swept = [f"{each:g}" for each in rows.loc[[name]].dropna()]
        cells = [f"`{name}`, {f'{len(swept)} strengths' if swept else 'one row'}", ", ".join(swept)]
        cells += [f"{number(line.from_accuracy)} to {number(line.to_accuracy)}"]
        lines.append(cells + over_noise(line))
    return written(lines)


def on_two(board: str, other: str) -> list[str]:
    """A line per defense that was compared on both boards, in the order of the first."""
    found, beside = compared(board), compared(other)
    names = found.index.intersection(beside.index, sort=False)
    lines = []
    for name in names:
        here, there = over_noise(found.loc[name]), over_noise(beside.loc[name])
        lines.append([f"`{name}`, over its sweep", *here, there[0], there[2]])
    return written(lines)


def that_differ(board: str) -> list[str]:
    """A line per row of a board that differs from noise with all rows at once, the best first."""
    rows = read(board, "leaderboard").sort_values(OVER, ascending=False, kind="stable")
    lines = []
    for _, line in rows[differs(rows)].iterrows():
        accuracy = f"{number(line.accuracy, 3)} {interval(line, 'accuracy')}"
        fvu = f"{number(line.worst_fvu, 2)} {interval(line, 'worst_fvu', 2)}"
        cells = over_noise(line)
        row = f"`{line.defense}` {line.strength:g}{'' if settled(line) else ', not converged'}"
        lines.append([row, accuracy, fvu, cells[0].strip("*"), *cells[1:]])
    return written(lines)


def of_several(boards: tuple[str, ...] = BOARDS) -> list[str]:
    """A line per defense that was compared on several boards, by its place on the first."""
    found = [compared(board) for board in boards]
    names = list(dict.fromkeys(name for table in found for name in table.index))
    lines = []
    for name in names:
        cells = []
        for table in found:
            mean, _, joint = over_noise(table.loc[name]) if name in table.index else ("", "", "")
            bold = "**" if mean.startswith("**") else ""
            cells.append(f"{bold}{mean.strip('*')} {joint}{bold}" if mean else "")
        if sum(map(bool, cells)) > 1:
            lines.append([f"`{name}`", *cells])
    return written(lines)


def read(board: str, table: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / board / f"{table}.csv", keep_default_na=False, na_values=[""])


def compared(board: str) -> pd.DataFrame:
    """The defenses of a board that were compared with noise, the best first."""
    table = read(board, "leaderboard_by_defense").set_index("defense")
    return table[table[f"{JOINT}_low"].notna()].sort_values(OVER, ascending=False, kind="stable")


def differs(table: pd.DataFrame) -> pd.Series:
    return (table[f"{JOINT}_low"] > 0) | (table[f"{JOINT}_high"] < 0)


def settled(line: pd.Series) -> bool:
    return "not_converged" not in str(line["flags"])


def over_noise(line: pd.Series) -> list[str]:
    """The mean over noise, its own interval and that at once."""
    mean = f"{line[OVER]:+.3f}".replace("0.", ".", 1)
    shown = line[f"{JOINT}_high"] < 0 or (line[f"{JOINT}_low"] > 0 and settled(line))
    bold = "**" if shown else ""
    return [f"{bold}{mean}{bold}", interval(line, OVER), interval(line, JOINT)]


def interval(line: pd.Series, column: str, digits: int = 3) -> str:
    low, high = (number(line[f"{column}_{end}"], digits) for end in ("low", "high"))
    return f"[{low}, {high}]"


def number(value: float, digits: int = 2) -> str:
    """Rounded, but not to -0: the sign of an end of an interval decides."""
    text = f"{value:.{digits}f}"
    if value < 0 and not float(text):
        return number(value, digits + 1)
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def written(lines: list[list[str]]) -> list[str]:
    return ["|" + "".join(f" {cell} |" if cell else " |" for cell in cells) for cells in lines]


def renew(page: Path, header: str, lines: list[str]) -> None:
    """Puts lines in place of those of the table whose header starts with ``header``."""
    text = page.read_text().split("\n")
    (start,) = [i for i, line in enumerate(text) if line.startswith(header)]
    end = next(i for i in range(start, len(text)) if not text[i].startswith("|"))
    text[start + 2 : end] = lines
    page.write_text("\n".join(text))


if __name__ == "__main__":
    renew(CIFAR10, "| over its sweep |", sweeps("zoo"))
    renew(CIFAR10, "| row | accuracy | FVU | over noise |", that_differ("zoo"))
    renew(CIFAR10, "| reference network, two trainings |", on_two("cifar10", "zoo"))
    renew(README, "| over noise | CIFAR-10 |", of_several())
