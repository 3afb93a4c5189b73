"""What it costs an attacker to have images that are not like the victim's:
``python results/foreign/compare.py OWN FOREIGN``, the results folders of ``foreign.toml`` with
``dataset.use = cifar10`` and as it is.

Victims and test images are the same in both, so errors are compared victim by victim and image by
image: for every row and attack the FVU of both, and their difference with its 95 % interval.
Writes foreign.csv beside this file.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.rows import read
from smashbench.bench.report.statistics import columns, means


def errors(board: Board, row: Row, attack: str) -> np.ndarray:
    """Squared errors (seeds, images)."""
    found, store = [], board.store
    assert store
    for trial in board.suite.attacks:
        defense = trial.victim.defense
        if (defense.label, defense.strength) != (row.defense, row.strength):
            continue
        if trial.attack and trial.attack.label == attack:
            record = store.attack(trial.key)
            assert record
            found.append(store.arrays(record, "scores")["mse"])
    return np.stack(found).astype(np.float64)


def compared(own: Board, foreign: Board) -> pd.DataFrame:
    """A line per row and attack."""
    lines = []
    for ours, theirs in zip(own.complete, foreign.complete, strict=True):
        assert ours.label == theirs.label
        for attack in ours.attacks:
            both = [errors(board, row, attack) for board, row in ((own, ours), (foreign, theirs))]
            difference = (both[1] - both[0])[None, :, None] / own.floors["mean_image"]["mse"]
            pairs = ours.attacks[attack].threat.aux_images
            line = {"defense": ours.defense, "strength": ours.strength}
            line |= {"accuracy": ours.accuracy.mean if ours.accuracy else None, "attack": attack}
            line |= {"pairs": pairs, "mse_own": both[0].mean(), "mse_foreign": both[1].mean()}
            line["fvu_own"] = ours.attacks[attack].estimates["fvu"].mean
            line |= columns("fvu_more", means(difference)[0])
            for name, row in (("own", ours), ("foreign", theirs)):
                known = row.attacks[attack].estimates["rank_1_features"]
                line[f"rank_1_features_{name}"] = known.mean
            lines.append(line)
    return pd.DataFrame(lines)


if __name__ == "__main__":
    found = compared(*map(read, sys.argv[1:3]))
    print(found.to_string(index=False, float_format="%.4f"))
    found.to_csv(Path(__file__).with_name("foreign.csv"), index=False, float_format="%.6g")
