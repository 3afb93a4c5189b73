"""What becomes of the clusters when they are refitted on older features, more rarely, or for fewer
rounds: ``OMP_NUM_THREADS=1 python results/refits/refits_tried.py kmeans_cem gmm_cem``.

Trainings by AdamW, of photographs (in float32), at a strength in the middle, and at the end the
clusters that the last epoch was trained with, against a fresh fit by scikit-learn, both on the
clean features of the training images. Writes a table per defense beside this file;
docs/ablations.md says what came of it.
"""

import csv
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from torch import Tensor

from smashbench.bench.experiment.make_victim import start
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.datasets.photos import Photos
from smashbench.defenses import DEFENSES
from smashbench.defenses.base import Defense
from smashbench.defenses.gmm_cem import GmmCem
from smashbench.defenses.groups import by_class
from smashbench.defenses.kmeans_cem import KMeansCem

POLICIES = [  # refit, refresh_every, rounds
    ("clean", 1, 50),
    ("epoch", 1, 50),
    ("epoch", 2, 50),
    ("epoch", 4, 50),
    ("epoch", 1, 5),
    ("epoch", 1, 1),
]
STRENGTHS = {"kmeans_cem": 0.1, "gmm_cem": 1.0}
SEEDS = range(2)


def fits(defense: Defense, z: Tensor, y: Tensor) -> tuple[float, float]:
    """How well the defense's clusters and fresh ones fit features: squared distance to the nearest
    centre, or negative log-likelihood, per sample and feature."""
    ours, fresh = 0.0, 0.0
    for label, members in by_class(z, y):
        if isinstance(defense, KMeansCem):
            centres = defense.centres[label].numpy()
            ours += ((members[:, None] - centres) ** 2).sum(2).min(1).sum()
            fresh += KMeans(len(centres), n_init=1, random_state=0).fit(members).inertia_
        elif isinstance(defense, GmmCem):
            k = len(defense.weights[label])
            mixture = GaussianMixture(k, covariance_type="diag", random_state=0).fit(members)
            fresh -= mixture.score_samples(members).sum()
            mixture.weights_ = defense.weights[label].numpy().astype(np.float64)
            mixture.means_ = defense.means[label].numpy().astype(np.float64)
            mixture.precisions_cholesky_ = defense.precisions[label].double().sqrt().numpy()
            ours -= mixture.score_samples(members.astype(np.float64)).sum()
    return ours / z.flatten(1).numel(), fresh / z.flatten(1).numel()


def rows(name: str) -> list[dict[str, object]]:
    split = Photos(train=2000, val=200, aux=1500, test=500).load()
    training = Training(epochs=12, lr=0.003, precision="fp32")
    found: list[dict[str, object]] = []
    for seed in SEEDS:
        for refit, every, rounds in POLICIES:
            policy = {"refit": refit, "refresh_every": every, "rounds": rounds}
            start(seed)
            made = partial(DEFENSES[name], noise=0.2, lam=STRENGTHS[name], **policy)
            victim = Victim(MODELS["small"](), made, split.shape, split.classes)
            started = time.process_time()
            last = train(victim, split, training).history[-1]
            seconds = time.process_time() - started
            ours, fresh = fits(victim.defense, victim.encode(split.train.x), split.train.y)
            watched = {key: last[key] for key in ("val_accuracy", "class_variance", "occupancy")}
            row = {"seed": seed, **policy, "fit": ours, "fresh_fit": fresh, **watched}
            found.append(row | {"cpu_seconds": seconds})
            print(name, found[-1], flush=True)
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        table = rows(name)
        with (Path(__file__).parent / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(
                {key: f"{v:.4g}" if isinstance(v, float) else v for key, v in row.items()}
                for row in table
            )
