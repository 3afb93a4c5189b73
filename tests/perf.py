"""What the defenses and the grid cost, measured: ``make perf`` writes ``results/perf.md``.

Steps, penalties and whole trainings take turns, so that a machine that slows down slows all of
them. One thread.
"""

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from sklearn.cluster import KMeans
from tqdm import tqdm

from smashbench.bench.store.files import write_whole
from smashbench.defenses.gmm_cem import GmmCem
from smashbench.defenses.groups import by_class
from smashbench.defenses.kmeans_cem import KMeansCem
from tests import perf_grid, perf_memory, perf_peer, perf_scaling, perf_trainings, reference
from tests.fitted import step_of, victim_of
from tests.perf_calibration import calibrate
from tests.perf_scaling import ready

LIMITS = {
    "small": {"kmeans_cem": 1.10, "gmm_cem": 1.15, "gated_pooling": 1.12, "slot_attention": 1.5},
    "vgg11": {"kmeans_cem": 1.02, "gmm_cem": 1.02, "gated_pooling": 1.02, "slot_attention": 1.05},
}
CEM = list(LIMITS["small"])
OUTPUT = Path(__file__).parent.parent / "results" / "perf.md"


def medians(candidates: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each candidate, taken in turn; the first round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in tqdm(range(rounds + 1), leave=False, disable=None):
        for name, run in candidates.items():
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            started = time.perf_counter()
            run()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times[name].append(1e3 * (time.perf_counter() - started))
    return {name: median(values[1:]) for name, values in times.items()}


def training_step(model: str, name: str, device: str) -> Callable[[], object]:
    victim = victim_of(model, "noise", {}, (3, 32, 32), 10)
    if name != "noise":
        victim.defense = ready(name, victim.feature_shape, 10)
    victim.to(device).to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.AdamW(victim.parameters(), 1e-4, fused=True)
    x = torch.rand(128, 3, 32, 32, device=device).contiguous(memory_format=torch.channels_last)
    y = torch.arange(128, device=device) % 10

    def run() -> None:
        with torch.autocast(device, torch.bfloat16):
            z = victim.encoder(x)
        z = z.float()
        penalty, _ = victim.defense.penalty(step_of(z, y))
        with torch.autocast(device, torch.bfloat16):
            logits = victim.head(victim.defense(z))
        optimiser.zero_grad()
        (torch.nn.functional.cross_entropy(logits.float(), y) + penalty).backward()
        optimiser.step()

    return run


def steps(device: str) -> list[str]:
    lines = ["| model | noise, ms | " + " | ".join(CEM) + " |", "|---" * (len(CEM) + 2) + "|"]
    for model in LIMITS:
        candidates = {name: training_step(model, name, device) for name in ["noise", *CEM]}
        found = medians(candidates, 40 if model == "small" else 12)
        cells = [perf_trainings.against(found[n] / found["noise"], LIMITS[model][n]) for n in CEM]
        lines.append(f"| {model} | {found['noise']:.1f} | " + " | ".join(cells) + " |")
    return lines


def penalties(device: str) -> list[str]:
    """Forward and backward of the penalty alone, D = 2048, batch 128; with the literal loops."""
    lines = ["| defense | classes | loops, ms | ours, ms | loops / ours | ours / ours at 100 |"]
    lines.append("|---" * 6 + "|")
    shape = (32, 8, 8)
    for name in CEM:
        at_100 = float("nan")
        for classes in (10, 100, 500):
            torch.manual_seed(0)
            defense = ready(name, shape, classes).to(device).eval()
            z = torch.rand(128, *shape, device=device, requires_grad=True)
            y = torch.randint(classes, (128,), device=device)
            inputs = [z, *(p for p in defense.parameters())]

            def fast(defense=defense, z=z, y=y, inputs=inputs) -> object:
                return torch.autograd.grad(
                    defense.penalty(step_of(z, y))[0], inputs, allow_unused=True
                )

            def slow(defense=defense, z=z, y=y, inputs=inputs) -> object:
                return torch.autograd.grad(
                    reference.penalty(z, y, defense), inputs, allow_unused=True
                )

            found = medians({"fast": fast, "slow": slow}, 15)
            at_100 = found["fast"] if classes == 100 else at_100
            growth = f"{found['fast'] / at_100:.2f}" if classes == 500 else ""
            ratio = found["slow"] / found["fast"]
            lines.append(
                f"| {name} | {classes} | {found['slow']:.1f} | {found['fast']:.1f} "
                f"| {ratio:.1f} | {growth} |"
            )
    return lines


def synchronisations(device: str) -> list[str]:
    """Host synchronisations inside one penalty step, counted by the profiler (CUDA only)."""
    if device != "cuda":
        return ["No GPU on this machine: host synchronisations were not counted."]
    from torch.profiler import ProfilerActivity, profile

    lines = []
    for name in CEM:
        run = training_step("small", name, device)
        run()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            run()
        count = sum(
            event.count
            for event in seen.key_averages()
            if event.key in ("cudaStreamSynchronize", "aten::item", "cudaDeviceSynchronize")
        )
        lines.append(
            f"- {name}: {count} synchronisations in a step (the profiler's own end included)"
        )
    return lines


def refits() -> list[str]:
    """Refits of K = 5 clusters on 50,000 moved features: from k-means++, and from the last."""
    lines = [
        "| D | classes | K-means from k-means++, s | from the last, s | ratio "
        "| inertia, last / k-means++ | EM from K-means, s | from the last, s |",
        "|---" * 8 + "|",
    ]
    rng = np.random.default_rng(0)
    for d in (512, 2048):
        for classes in (10, 100):
            y = torch.arange(50_000) % classes
            modes = rng.normal(size=(classes, 6, 16))[y.numpy(), rng.integers(6, size=len(y))]
            mix = rng.normal(size=(16, d)).astype(np.float32) * 0.15
            latent = (modes + 0.7 * rng.normal(size=modes.shape)).astype(np.float32)
            z = torch.from_numpy(latent @ mix)
            z = (z + 0.2 * torch.randn_like(z)).sigmoid().view(len(y), d, 1, 1)
            moved = z + 0.02 * torch.randn_like(z)
            cells = []
            for defense in (KMeansCem((d, 1, 1), classes), GmmCem((d, 1, 1), classes)):
                cold = type(defense)((d, 1, 1), classes)
                defense.refresh(z, y)
                started = time.perf_counter()
                cold.refresh(moved, y)
                middle = time.perf_counter()
                defense.refresh(moved, y)
                cells.append((middle - started, time.perf_counter() - middle))
                if isinstance(defense, KMeansCem) and isinstance(cold, KMeansCem):
                    inertia = [_inertia(found, moved, y) for found in (defense, cold)]
            (k_cold, k_warm), (e_cold, e_warm) = cells
            lines.append(
                f"| {d} | {classes} | {k_cold:.2f} | {k_warm:.2f} | {k_cold / k_warm:.1f} "
                f"| {inertia[0] / inertia[1]:.4f} | {e_cold:.2f} | {e_warm:.2f} |"
            )
    return lines


def _inertia(defense: KMeansCem, features: torch.Tensor, labels: torch.Tensor) -> float:
    total = 0.0
    for label, members in by_class(features, labels):
        centres = defense.centres[label].numpy()
        total -= (
            KMeans(len(centres), init=centres, n_init=1, max_iter=1).fit(members).score(members)
        )
    return total


def main() -> None:
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU"
    calibration, folder = calibrate(), os.environ.get("SMASHBENCH_DATA")
    text = [
        "# What the defenses and the grid cost",
        f"\n`make perf` on one thread of an {machine}, PyTorch {torch.__version__}. "
        "Compare ratios, not milliseconds.",
        f"\n## Calibration\n\n{calibration.text}",
        "\n## The reference implementation and ours\n",
        *perf_peer.peers(OUTPUT.with_suffix(".png"), calibration.unit),
        "\n## How costs grow\n\nCPU time; forward and backward of a penalty at batch 128, float32, "
        "D = 2048 and 10 classes where nothing else is said; growth is the last over the first.\n",
        *perf_scaling.scaling(),
        "\n## A training step, over a step of `noise`\n\nBatch 128, 10 classes, bf16 autocast.\n",
        *steps(device),
        "\n## Whole trainings\n\n`small`, AdamW (2,000 photographs, 12 epochs, "
        f"{perf_trainings.precision()}), refits included: CPU-seconds of trainings that "
        f"take turns by the epoch, medians of {perf_trainings.ROUNDS} rounds.\n",
        *perf_trainings.trainings(),
        "\n## The penalty alone, against literal loops over classes\n\nForward and backward, "
        "float32, batch 128, D = 2048, K = 5, S = 8. The loops are `tests/reference.py`.\n",
        *penalties(device),
        "\n## Waiting for the device\n",
        *synchronisations(device),
        "\n## Refitting the clusters\n\n50,000 features that moved a little since the last fit: "
        "scikit-learn's first fit, one class at a time, and a round from the last fit.\n",
        *refits(),
        "\n## Images in memory\n\nProportional set size of worker processes, in which what n of "
        "them share counts as 1/n, and in brackets what each has for itself; PyTorch included.\n",
        *perf_memory.sharing(Path(folder) if folder else None),
        "\n## How memory is taken\n\nWorkers ask for huge pages and keep what they free "
        f"(`bench/processes.py`): medians of {perf_memory.ROUNDS} trainings each, in turn.\n",
        *perf_memory.allocation(),
        "\n## Running trials\n\nWall time over trials, without the start of the workers; the ratio "
        "is what the second worker brings.\n",
        *perf_grid.grid(),
        "\n## Many records\n\nSynthetic: five seeds, 19 attacks, 100 test images; the whole "
        "command, with its start and its figures, on files that the operating system has in "
        "memory. Seconds are those of the fastest of three runs; peak memory, of all processes "
        "together, is from another run.\n",
        *perf_grid.records(),
    ]
    write_whole(OUTPUT, ("\n".join(text) + "\n").encode())
    print("\n".join(text), f"\n\nwritten to {OUTPUT}")


if __name__ == "__main__":
    main()
