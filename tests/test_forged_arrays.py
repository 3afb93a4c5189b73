"""Score and sample files that someone made up, and bytes changed at random: a clear error each."""

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.rows import read
from smashbench.bench.run.status import status
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.pack import pack
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Trial
from tests.forge import IMAGES
from tests.forged import named, trials

FULL = np.full(IMAGES, 0.5, np.float32)
SCORES = {
    "no array": {},
    "another name": {"other": FULL},
    "another type": FULL.astype(np.float64),
    "whole numbers": np.ones(IMAGES, np.int32),
    "another shape": FULL[:, None],
    "one number": np.array(0.5, np.float32),
    "no image": FULL[:0],
    "fewer images": FULL[:-1],
    "more images": np.concatenate([FULL, FULL]),
    "not a number": np.full(IMAGES, np.nan, np.float32),
    "infinite": np.full(IMAGES, np.inf, np.float32),
    "negative": np.full(IMAGES, -0.5, np.float32),
    "an array of another length beside it": {"forged": FULL[:-1]},
    "an array of another type beside it": {"forged": FULL.astype(np.float64)},
}


def replace_arrays(folder: Path, trial: Trial, name: str, content: bytes) -> None:
    """Other arrays, under a record that says so."""
    store = Store(folder)
    record = store.finished(trial.key)
    hashes = record.arrays | store.write_arrays(trial.key, {name: content})
    store.write(record.model_copy(update={"arrays": hashes}))


@pytest.mark.parametrize("case", SCORES)
@pytest.mark.parametrize("kind", ["victim", "attack"])
def test_forged_scores_are_one_clear_error(folder, kind, case):
    trial, forged = trials(folder)[kind], SCORES[case]
    own = "mse" if trial.attack else "correct"
    arrays = {own: FULL} | forged if isinstance(forged, dict) else {own: forged}
    if case in ("no array", "another name"):
        arrays = forged
    replace_arrays(folder, trial, "scores", save(arrays))
    with pytest.raises(DamagedError) as caught:
        read(folder)
    other = caught.value.path.stem  # of two that differ, either
    assert other == trial.key or case in ("fewer images", "more images")
    named(caught.value, folder, f"scores/{other}.safetensors")


@pytest.mark.parametrize(
    ("kind", "name", "value"), [("victim", "correct", 1.5), ("attack", "ssim", 1.5)]
)
def test_scores_beyond_their_bounds_are_one_clear_error(folder, kind, name, value):
    trial = trials(folder)[kind]
    arrays = {"mse": FULL, name: np.full(IMAGES, value, np.float32)}
    replace_arrays(folder, trial, "scores", save(arrays if trial.attack else {name: arrays[name]}))
    with pytest.raises(DamagedError, match=rf"{trial.key}.*outside \[-?[01], 1\]"):
        read(folder)


def test_scores_of_a_metric_that_this_checkout_lacks_are_left_alone(folder):
    before = read(folder)
    trial = trials(folder)["attack"]
    assert "lpips" not in METRICS
    arrays = {"mse": FULL, "ssim": FULL, "lpips": 7 * FULL}
    replace_arrays(folder, trial, "scores", save(arrays))
    assert read(folder).rows[0].attacks.keys() == before.rows[0].attacks.keys()


PICTURES = np.zeros((2, 3, 4, 4), np.uint8)
SAMPLES = {
    "no array": {},
    "no samples": {"users": PICTURES, "users_original": PICTURES},
    "no users": {"samples": PICTURES},
    "another type": {"samples": PICTURES.astype(np.float32)},
    "another shape": {"samples": PICTURES[0]},
    "two colours": {"samples": PICTURES[:, :2]},
    "no image": {"samples": PICTURES[:0]},
    "no pixels": {"samples": PICTURES[..., :0]},
    "one user": {"users": PICTURES[:1]},
    "users of another size": {"users": PICTURES[..., :2]},
    "more samples than others": {"samples": np.concatenate([PICTURES, PICTURES])},
    "larger samples than others": dict.fromkeys(
        ("samples", "users", "users_original"), PICTURES.repeat(2, 3)
    ),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_forged_samples_are_one_clear_error(folder, case):
    trial = trials(folder)["attack"]
    arrays = dict.fromkeys(("samples", "users", "users_original"), PICTURES) | SAMPLES[case]
    if case.startswith("no ") and case not in ("no image", "no pixels"):
        arrays = SAMPLES[case]
    replace_arrays(folder, trial, "samples", save(arrays))
    board = read(folder)
    with pytest.raises(DamagedError) as caught:
        board.images(Store(folder).attack(trial.key))
    named(caught.value, folder, f"samples/{trial.key}.safetensors")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("packed", [False, True])
def test_random_bytes_anywhere_are_one_clear_error(folder, seed, packed):
    """A file that is cut short, overwritten in places, or something else altogether."""
    if packed:
        pack(folder)
    chance = random.Random(seed)
    folders = [folder] if packed else [folder / "records", folder / "scores", folder]
    for place in folders:
        path = chance.choice(sorted(path for path in place.iterdir() if path.is_file()))
        content = bytearray(path.read_bytes())
        changed = bytes(content[: chance.randrange(len(content))])
        if seed % 3 == 1:
            for _ in range(5):
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            changed = bytes(content)
        elif seed % 3 == 2:
            changed = chance.randbytes(chance.randrange(200))
        before = path.read_bytes()
        path.write_bytes(changed)
        try:
            assert path.name in status(read_suite(folder), folder) or path.name == "suite.json"
        except BenchError as error:
            named(error, folder, "suite.json")
        with contextlib.suppress(BenchError):
            read(folder)
        path.write_bytes(before)
