"""Running one trial: train a victim, or run one attack on it; either ends in one record."""

import json
import platform
import time
from copy import deepcopy
from functools import lru_cache
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from attacks import ATTACKS, Knowledge
from attacks.base import WhiteBox, finite
from bench.bounds import lower_bound, optimum, sample
from bench.errors import BenchError
from bench.metrics import VERSION, mse, psnr_of, ssim
from bench.seeds import seed_for
from bench.store import Store
from bench.train import Training, train
from bench.trials import Trial
from bench.victim import Victim
from bench.wall import behind_wall, grant
from datasets import DATASETS, Split

ACCURACY_DRAWS = 5
"""Releases per test image that the accuracy is averaged over, when they are random."""
SAMPLES = 8
"""Test images whose reconstructions are kept, spread evenly over their order of difficulty."""
USERS = (0.05, 0.5)
"""Quantiles of the unexplained share of an image's own variance; the images are kept, too."""
ATTACK_FAILED = 0.95
"""Share of the mean image's error above which an attack has learned nothing."""
FLAT = 1e-4
"""Variance of the pixels of an image below which it shows nothing."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def run_trial(trial: Trial, folder: Path, data: Path | None) -> None:
    """Runs one trial and writes its record, last.

    Args:
        trial: what to run.
        folder: the results folder; an attack finds its victim there.
        data: the data folder.

    Raises:
        BenchError, DatasetError, AttackError: something a person must change.
    """
    device = accelerator()
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(device.type == "cuda", warn_only=True)
    store, started = Store(folder), time.perf_counter()
    victim_config = trial.config["victim"] if trial.parent else trial.config
    split = load_data(victim_config["dataset"], data, device)
    if trial.parent is None:
        scores, samples, results = _train_victim(trial, split, store)
    else:
        scores, samples, results = _attack_victim(trial, split, store)
    record = {
        "key": trial.key,
        "status": "ok",
        "config": trial.config,
        "parent": trial.parent,
        "source": trial.source,
        "data_hash": split.hash,
        "metric_version": VERSION,
        **results,
        "seconds": {**results["seconds"], "total": round(time.perf_counter() - started, 3)},
        "machine": _machine(device),
    }
    store.finish(record, {"scores": save(scores), "samples": save(samples)})


def accelerator() -> torch.device:
    """Where trials run."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_data(dataset: dict[str, Any], data: Path | None, device: torch.device) -> Split:
    """The split of a resolved data set, on ``device``; the last one is kept."""
    return _load(json.dumps(dataset, sort_keys=True), data, device)


@lru_cache(maxsize=1)
def _load(dataset: str, data: Path | None, device: torch.device) -> Split:
    config = json.loads(dataset)
    split: Split = DATASETS[config["name"]](**config["options"]).load(data)
    return split.to(device)


def build_victim(config: dict[str, Any], split: Split) -> Victim:
    """An untrained victim for a trial's configuration, on the split's device."""
    defense = config["defense"]
    victim = Victim(
        config["model"], defense["name"], defense["options"], split.shape, split.classes
    )
    return victim.to(split.test.x.device)


def _train_victim(
    trial: Trial, split: Split, store: Store
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    config = trial.config
    torch.manual_seed(seed_for("victim", config["seed"]))
    victim = build_victim(config, split)
    started = time.perf_counter()
    history = train(victim, split, Training.model_validate(config["training"], strict=False))
    seconds = time.perf_counter() - started
    z = victim.encode(split.test.x)
    correct = _correct(victim, z, split.test.y, config["seed"])
    checkpoint = victim.save(store.victim_path(trial.key))
    floors, samples = _floors(split), {"samples": _pixels(split.test.x[chosen_images(split)])}
    bound = lower_bound(victim, split)
    metrics = {
        "accuracy": float(correct.mean()),
        "chance": float(split.test.y.bincount(minlength=split.classes).max() / len(correct)),
    }
    results = {
        "metrics": metrics,
        "floors": floors,
        "bound": bound._asdict() if bound else None,
        "optimum": _optimum(victim, split, z, config["seed"]),
        "randomized": victim.defense.randomized,
        "payload": z[0].numel(),
        "client_parameters": victim.client_parameters,
        "checkpoint_sha256": checkpoint,
        "history": [_finite(epoch) for epoch in history],
        "seconds": {"train": round(seconds, 3)},
    }
    return {"correct": correct.cpu()}, samples, results


def _correct(victim: Victim, z: Tensor, y: Tensor, seed: int) -> Tensor:
    """Share of the releases (N,) of each image's features z that the head classifies rightly."""
    torch.manual_seed(seed_for("accuracy", seed))
    draws = ACCURACY_DRAWS if victim.defense.randomized else 1
    hits = [victim.predict(victim.protect(z)) == y for _ in range(draws)]
    return torch.stack(hits).float().mean(0)


def _attack_victim(
    trial: Trial, split: Split, store: Store
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    config, chosen = trial.config["victim"], trial.config["attack"]
    # without a second number for the first attack seed: its draws are those of the victim's seed
    seeds = [config["seed"], *([trial.config["seed"]] if trial.config["seed"] else [])]
    parent = store.need(str(trial.parent))
    if parent["data_hash"] != split.hash:
        raise BenchError(
            "the images are not those that the victim was trained with; they would be dealt "
            "otherwise: put back what was changed, or start anew with another --out"
        )
    checkpoint = parent["checkpoint_sha256"]
    victim, z_aux, z_test = _stored_victim(str(trial.parent), checkpoint, store.folder, split)
    attack = ATTACKS[chosen["name"]](**chosen["options"])

    def release() -> Tensor:
        torch.manual_seed(seed_for("release", *seeds))  # the same for every attack
        return finite(_repeated(victim, z_test, attack.releases)).clone()

    everything = Knowledge(  # copies: what an attack does to them touches no other trial
        images=split.aux.x.clone(),
        draw=lambda index: victim.protect(z_aux[index]),
        predict=victim.predict,
        classes=split.classes,
        query=victim.release,
        client=WhiteBox(deepcopy(victim.encoder), deepcopy(victim.defense), victim.defense.noise),
    )
    torch.manual_seed(seed_for("attack", chosen["label"], *seeds))
    guess, fitting, rebuilding = behind_wall(attack, grant(attack.level, everything), release)
    scores = {"mse": mse(split.test.x, guess), "ssim": ssim(split.test.x, guess)}
    metrics = {name: _summary(values) for name, values in scores.items()}
    metrics["psnr"] = _summary(psnr_of(scores["mse"]))
    fvu = metrics["mse"]["mean"] / parent["floors"]["mean_image"]["mse"]
    flags = {"not_converged": not attack.converged_, "attack_failed": fvu > ATTACK_FAILED}
    results = {
        "victim_sha256": checkpoint,
        "metrics": metrics,
        "kind": attack.kind,
        "converged": attack.converged_,
        "curve": [float(f"{loss:.6g}") if isfinite(loss) else None for loss in attack.history_],
        "flags": [flag for flag, raised in flags.items() if raised],
        "threat_model": {
            "knowledge": attack.level,
            "aux_images": len(split.aux.x),
            "aux_overlap": 0,
            "noise_aware": attack.kind != "floor",
            "releases_per_image": attack.releases,
        },
        "seconds": {"fit": round(fitting, 3), "reconstruct": round(rebuilding, 3)},
    }
    kept = {name: values.float().cpu() for name, values in scores.items()}
    contrast = split.test.x.flatten(1).var(1).clamp_min(FLAT)
    users = (scores["mse"] / contrast).argsort()[[round(q * (len(guess) - 1)) for q in USERS]]
    samples = {
        "samples": guess[chosen_images(split)],
        "users": guess[users],
        "users_original": split.test.x[users],
    }
    return kept, {name: _pixels(images) for name, images in samples.items()}, results


def _repeated(victim: Victim, z: Tensor, releases: int) -> Tensor:
    """Releases (N, C', H', W') of clean features z, or (N, n, C', H', W') for n > 1 of each."""
    if releases == 1:
        return victim.protect(z)
    return torch.stack([victim.protect(z) for _ in range(releases)], 1)


@lru_cache(maxsize=1)
def _stored_victim(
    key: str, checkpoint: str, folder: Path, split: Split
) -> tuple[Victim, Tensor, Tensor]:
    """A trained victim and its clean features of aux and test; the attacks on it share them."""
    store = Store(folder)
    victim = build_victim(store.need(key)["config"], split)
    victim.restore(store.victim_path(key), checkpoint)
    victim.requires_grad_(False)
    return victim, victim.encode(split.aux.x), victim.encode(split.test.x)


def _finite(row: dict[str, float]) -> dict[str, float | None]:
    """JSON has no NaN: a diverged training is recorded, not refused."""
    return {name: value if isfinite(value) else None for name, value in row.items()}


def _summary(values: Tensor) -> dict[str, float]:
    """Mean, standard deviation and quantiles of per-image values (N,)."""
    values = values.double()
    spread = torch.tensor(QUANTILES, dtype=values.dtype, device=values.device)
    quantiles = zip(QUANTILES, values.quantile(spread).tolist(), strict=True)
    summary = {"mean": float(values.mean()), "std": float(values.std(correction=0))}
    return summary | {f"q{round(100 * q):02d}": value for q, value in quantiles}


def chosen_images(split: Split) -> Tensor:
    """Indices (SAMPLES,) of test images at evenly spaced quantiles of difficulty: the error that
    their 4x4 thumbnail leaves. So they depend on the data alone and nobody picks them."""
    x = split.test.x
    coarse = interpolate(adaptive_avg_pool2d(x, 4), x.shape[2:], mode="nearest")
    order = (x - coarse).square().flatten(1).mean(1).argsort(stable=True)
    return order[sample(len(order), SAMPLES).to(order.device)]


def _pixels(images: Tensor) -> Tensor:
    """Images in [0, 1] as uint8."""
    return (images * 255).round().to(torch.uint8).cpu().contiguous()


def _floors(split: Split) -> dict[str, dict[str, float]]:
    """MSE and SSIM of what needs no attack: the train mean, the true class's train mean, and
    thumbnails of the test images themselves."""
    x, (train_x, train_y) = split.test.x, split.train
    mean = train_x.mean(0)
    label = torch.arange(split.classes, device=x.device)
    member = (label[:, None] == train_y).float()
    count = member.sum(1, keepdim=True)
    by_class = ((member @ train_x.flatten(1)) / count.clamp_min(1)).where(count > 0, mean.flatten())
    guesses = {
        "mean_image": mean.expand_as(x),
        "class_mean": by_class[split.test.y].view_as(x),
    }
    for size in (2, 4):
        small = adaptive_avg_pool2d(x, size)
        guesses[f"thumbnail_{size}x{size}"] = interpolate(small, x.shape[2:], mode="nearest")
    return {
        name: {"mse": float(mse(x, guess).mean()), "ssim": float(ssim(x, guess).mean())}
        for name, guess in guesses.items()
    }


def _optimum(victim: Victim, split: Split, z: Tensor, seed: int) -> dict[str, float] | None:
    """MSE and SSIM of the best possible reconstruction from the releases that every attack gets;
    None where it is not known."""
    torch.manual_seed(seed_for("release", seed))
    guess = optimum(victim, split, victim.protect(z))
    if guess is None:
        return None
    guess, x = guess.clamp(0, 1), split.test.x
    return {"mse": float(mse(x, guess).mean()), "ssim": float(ssim(x, guess).mean())}


def _machine(device: torch.device) -> dict[str, str]:
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
    packages = ("torch", "torchvision", "numpy", "scikit-learn", "scikit-image")
    return {
        "device": f"{device.type} {name}",
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
