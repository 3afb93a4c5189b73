"""Writes the tables of README.md and of pages in docs anew, from the published boards: ``python
results/tables.py``. Bold is a mean whose interval for all lines at once excludes 0; where noise is
what it is compared with, above 0 only if attacks had converged, as in a report."""

from decimal import Decimal
from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).parent
BOARDS = ("cifar10", "zoo", "fashion_mnist", "tiny_imagenet")
"""Of the columns of the table in README.md."""
README, DOCS = RESULTS.parent / "README.md", RESULTS.parent / "docs"
CIFAR10, ABLATIONS, ATTACKS = (DOCS / f"{name}.md" for name in ("cifar10", "ablations", "attacks"))
ADAPTIVE = ("gmm", "gmm_by_class", "knn", "decoder", "map")
STRENGTH = {
    "mean": "mean image",
    "class_mean": "mean of the predicted class",
    "ridge": "`ridge`",
    "gmm": "`gmm`, 4 components",
    "gmm_by_class": "`gmm`, 2 components for each class",
    "knn": "`knn`",
    "decoder_150": "`decoder`, small, 150 steps",
    "decoder_700": "`decoder`, small, 700 steps",
    "decoder_3100": "`decoder`, small, 3,100 steps at most",
    "decoder_large": "`decoder`, large",
    "decoder_large_3": "mean of three large decoders",
    "decoder_ssim": "`decoder`, large, SSIM + L1 loss",
    "stolen_query_decoder": "`stolen_query_decoder`",
    "query_decoder": "`query_decoder`",
    "map": "`map`",
    "plug_and_play": "`plug_and_play`",
    "unrolled": "`unrolled`",
    "flow": "`flow`, mean of 16 samples",
    "flow_single": "`flow`, one sample",
    "average_4": "`averaging`, 4 releases",
    "average_16": "`averaging`, 16 releases",
    "reference": "reference decoder",
    "shadow": "`shadow` (no pairs)",
    "unsplit": "`unsplit` (the architecture alone), 10 of its 1,000 rounds",
}
"""What docs/attacks.md calls the attacks of the suite ``strength``."""
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


def to_take(boards: tuple[str, ...] = BOARDS) -> list[str]:
    """A line per loss of accuracy, a column per board: the row that leaves most of those that lose
    no more and whose attacks had converged, beside noise there; bold where its defense is shown to
    beat noise at this loss."""
    lines = []
    for points in (1, 2, 5):
        cells = [f"{points} point{'s' if points > 1 else ''}"]
        for board in boards:
            rows = read(board, "leaderboard")
            least = rows[rows.defense == "none"].accuracy.iloc[0] - points / 100 - 1e-9
            known = (rows.defense != "none") & rows.apply(settled, axis=1)
            other = "incomplete|fewer_attacks|other_training"
            known &= ~rows["flags"].str.contains(other, na=False)
            rows = rows[known & (rows.accuracy >= least)]
            sweeps = read(board, "leaderboard_by_defense").set_index("defense")
            noise = f"noise {number(sweeps.loc['noise'][f'fvu_at_{points}_points'])}"
            if rows.empty:
                cells.append(f"no row; {noise}")
                continue
            line = rows.loc[rows.worst_fvu.idxmax()]
            sweep, over = sweeps.loc[line.defense], f"{OVER}_at_{points}_points"
            shown = sweep[f"{over}_low"] > 0 and sweep[f"reached_at_{points}_points"] >= 0.975
            bold = "**" if shown and settled(sweep) else ""
            fvu = f"{number(line.worst_fvu)} {interval(line, 'worst_fvu', 2)}"
            cells.append(f"{bold}`{line.defense}` {line.strength:g}: {fvu}{bold}; {noise}")
        lines.append(cells)
    return written(lines)


def at_a_loss(board: str, drop: float) -> list[str]:
    """A line per defense that was swept across a loss of accuracy, interpolated there."""
    rows = read(board, "matched")
    lines = []
    for _, line in rows[rows.accuracy_drop == drop].iterrows():
        cells = [number(line.worst_mse, 4), number(line.class_variance, 4)]
        cells += ["" if pd.isna(line.surrogate) else two_digits(line.surrogate)]
        cells += ["" if pd.isna(line.effective_samples) else f"{line.effective_samples:.1f}"]
        lines.append([f"`{line.defense}`", *cells])
    return written(lines)


def over_sweeps(board: str) -> list[str]:
    """A line per defense of a board over its sweep, the best first."""
    found = compared(board)
    return written([[f"`{name}`", *over_noise(line)] for name, line in found.iterrows()])


def over_each_other(board: str) -> list[str]:
    """A line per pair of variants.csv."""
    lines = []
    for _, line in read(board, "variants").iterrows():
        bold = "**" if line.fvu_joint_low > 0 or line.fvu_joint_high < 0 else ""
        cells = [
            f"{bold}{signed(line.fvu)}{bold}",
            interval(line, "fvu"),
            interval(line, "fvu_joint"),
        ]
        lines.append([f"`{line.variant}`", f"`{line.less}`", *cells])
    return written(lines)


def by_pairs(board: str) -> list[str]:
    """A line per number of pairs, a column per row of a board: FVU of one release."""
    rows = read(board, "knowledge")
    return by_level(rows[rows.releases_per_image == 1], "aux_images")


def by_releases(board: str) -> list[str]:
    """A line per number of releases of an image above one, a column per row of a board."""
    rows = read(board, "knowledge")
    return by_level(rows[rows.releases_per_image > 1], "releases_per_image")


def by_attack(board: str, attacks: tuple[str, ...]) -> list[str]:
    """A line per row of a board, a column per attack: MSE and SSIM."""
    lines = []
    for _, line in read(board, "leaderboard").iterrows():
        strength = "" if pd.isna(line.strength) else f" {line.strength:g}"
        cells = [f"{number(line[f'{a}_mse'], 4)} ({number(line[f'{a}_ssim'])})" for a in attacks]
        lines.append([f"`{line.defense}`{strength}", *cells])
    return written(lines)


def of_attacks(board: str, attacks: dict[str, str]) -> list[str]:
    """A line per attack: MSE and SSIM on every row of a board, and its seconds on the first."""
    rows, costs = read(board, "leaderboard"), read(board, "costs").iloc[0]
    lines = []
    for attack, label in attacks.items():
        errors = zip(rows[f"{attack}_mse"], rows[f"{attack}_ssim"], strict=True)
        cells = [f"{number(mse, 4)} ({number(ssim)})" for mse, ssim in errors]
        seconds = f"{costs[attack]:,.{1 if costs[attack] < 10 else 0}f}"
        lines.append([label, *cells, seconds if costs[attack] >= 0.05 else ""])
    return written(lines)


def by_level(rows: pd.DataFrame, level: str) -> list[str]:
    lines = []
    for value, group in rows.groupby(level):
        cells = [f"{number(line.fvu)} {interval(line, 'fvu', 2)}" for _, line in group.iterrows()]
        lines.append([f"{value:,}", *cells])
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
    shown = line[f"{JOINT}_high"] < 0 or (line[f"{JOINT}_low"] > 0 and settled(line))
    bold = "**" if shown else ""
    return [f"{bold}{signed(line[OVER])}{bold}", interval(line, OVER), interval(line, JOINT)]


def interval(line: pd.Series, column: str, digits: int = 3) -> str:
    low, high = (number(line[f"{column}_{end}"], digits) for end in ("low", "high"))
    return f"[{low}, {high}]"


def signed(value: float) -> str:
    text = f"{value:+.3f}"
    return text.replace("0.", ".", 1) if float(text) else ".000"


def two_digits(value: float) -> str:
    """Significant ones, without an exponent."""
    return f"{Decimal(f'{value:#.2g}'):f}".replace("0.", ".", 1)


def number(value: float, digits: int = 2) -> str:
    """Rounded, but not to -0: the sign of an end of an interval decides."""
    text = f"{value:.{digits}f}"
    if value < 0 and not float(text):
        return number(value, digits + 1)
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def written(lines: list[list[str]]) -> list[str]:
    return ["|" + "".join(f" {cell} |" if cell else " |" for cell in cells) for cells in lines]


def renewed(text: str, header: str, lines: list[str]) -> str:
    """A page with lines in place of those of the table whose header starts with ``header``."""
    before = text.split("\n")
    (start,) = [i for i, line in enumerate(before) if line.startswith(header)]
    end = next(i for i in range(start, len(before)) if not before[i].startswith("|"))
    return "\n".join([*before[: start + 2], *lines, *before[end:]])


def tables() -> list[tuple[Path, str, list[str]]]:
    """The page, the start of the header and the lines of every table."""
    return [
        (CIFAR10, "| over its sweep |", sweeps("zoo")),
        (CIFAR10, "| row | accuracy | FVU | over noise |", that_differ("zoo")),
        (CIFAR10, "| reference network |", on_two("cifar10", "zoo")),
        (ABLATIONS, "| variant | worst MSE |", at_a_loss("ablations", 0.02)),
        (ABLATIONS, "| over its sweep |", over_sweeps("ablations")),
        (ABLATIONS, "| variant | over |", over_each_other("ablations")),
        (ATTACKS, "| MSE (SSIM) | `gmm`", by_attack("adaptive", ADAPTIVE)),
        (ATTACKS, "| pairs | `none` | `noise` 0.4 | `kmeans_cem`", by_pairs("knowledge")),
        (ATTACKS, "| releases | `none` | `noise` 0.4 | `kmeans_cem`", by_releases("knowledge")),
        (ATTACKS, "| attack | `none` | noise 0.1 |", of_attacks("strength", STRENGTH)),
        (ATTACKS, "| attack | MSE (SSIM) |", of_attacks("strength_cifar10", STRENGTH)),
        (README, "| over noise | Reference network,", of_several()),
        (README, "| accuracy lost | Reference network,", to_take()),
    ]


if __name__ == "__main__":
    for page, header, lines in tables():
        page.write_text(renewed(page.read_text(), header, lines))
