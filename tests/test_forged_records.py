"""Records, scores, packs and suites that someone made up: at most one clear error, never a
traceback.

Every forgery carries a right seal, so that only its meaning is wrong.
"""

import contextlib
import json
import random
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.rows import read
from smashbench.bench.run.attempt import failure
from smashbench.bench.run.status import status
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.pack import pack
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store, _sealed
from smashbench.bench.suite.trial import Suite, Trial
from tests.forge import IMAGES, attack_trial, keep_attack, keep_victim, victim_trial

HOLE = "put the raw text here"
RAW = {
    "null": "null",
    "true": "true",
    "nan": "NaN",
    "infinite": "Infinity",
    "text": '"text"',
    "empty text": '""',
    "formula": '"$x^$"',
    "negative": "-1",
    "large": "1e300",
    "tiny": "5e-324",
    "overflow": "1e400",
    "large whole": "1" + 400 * "0",
    "endless whole": "1" + 5000 * "0",
    "list": "[]",
    "table": "{}",
    "list of tables": "[{}]",
    "deep": 2000 * "[" + 2000 * "]",
}
"""What each field becomes, as JSON would have it."""
TEXTS = {"deleted", "text", "empty text", "formula"}
NUMBERS = {"negative", "large", "tiny"}
FREE = (
    (r"facts\.diagnostics", {"table"}, "a defense declares what it likes, or nothing"),
    (r"facts\.diagnostics\.\w+(\.\w+)?", TEXTS | {"true"}, "how it is shown is up to the defense"),
    (r"facts\.noise", NUMBERS, "any noise can be added"),
    (r"metrics\.(accuracy|chance)", {"tiny"}, "a share, if a small one"),
    (r"floors\.(mean_image|class_mean)", {"deleted", "table", "unknown field"}, "any predictor"),
    (r"floors\.\w+\.\w+", {"deleted", *NUMBERS}, "in the bounds of its metric"),
    (r"optimum", {"table"}, "any metrics of it"),
    (r"randomized", {"true"}, "the other truth value"),
    (
        r"history(\.\*)?",
        {"list", "list of tables", "deleted", "table", "unknown field"},
        "any name",
    ),
    (r"history\.\*\.\w+", {"deleted", "null", *NUMBERS}, "any finite number, or none"),
    (r"machine(\.\w+)?", {"table", *TEXTS}, "free texts about the machine"),
    (r"arrays(\.\w+)?", {"table", "deleted"}, "refused when the file is looked for"),
    (r"seconds\.\w+", {"tiny"}, "a time, if a short one"),
    (r"metrics\.(ssim|psnr)", {"deleted"}, "another checkout may have other metrics"),
    (r"metrics\.\w+\.(mean|std|q05|q95)", NUMBERS, "in the bounds of its metric and in order"),
    (r"error", TEXTS, "free text"),
    (r"threat_model\.grants", {"list"}, "an attack may need nothing"),
    (r"threat_model\.grants\.\*", {"deleted", "text"}, "another checkout may have other grants"),
)
"""Place, what may be done there unnoticed, and why nothing is wrong with it."""
EVERY = 25
"""One forgery of so many that the store refuses also goes through a report and ``status``."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A small folder that nothing is wrong with: two defenses, two attacks, one of which failed
    once."""
    folder = tmp_path_factory.mktemp("forged") / "sound"
    store = Store(folder)
    victims = [victim_trial("none", None), victim_trial("kmeans_cem", 0.5)]
    attacks = [attack_trial(victim, name) for victim in victims for name in ("mean", "gmm")]
    save_suite(Suite("forged", "Made by hand.", tuple(victims), tuple(attacks), "run"), folder)
    for victim in victims:
        keep_victim(store, victim, checkpoint_sha256=store.write_weights(victim.key, b"weights"))
    for attack in attacks[:-1]:
        sha256 = store.victim(str(attack.parent)).checkpoint_sha256
        keep_attack(store, attack, victim_sha256=sha256)
    store.write(failure(attacks[-1], "a long story\nno memory"))
    return folder


@pytest.fixture
def folder(sound, tmp_path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "forged"))


def trials(folder: Path) -> dict[str, Trial]:
    suite = read_suite(folder)
    return {"victim": suite.victims[0], "attack": suite.attacks[0], "failed": suite.attacks[-1]}


def places(value: Any, at: tuple = ()) -> Iterator[tuple]:
    """The way to every value below."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for name, each in inner:
        yield (*at, name)
        yield from places(each, (*at, name))


def forgeries(text: str) -> Iterator[tuple[str, str, str]]:
    """Place, what was done there and the text that comes of it, for every field of a JSON text; of
    a list, the first entry's."""
    for way in places(json.loads(text)):
        if any(isinstance(step, int) and step for step in way):
            continue
        name = ".".join("*" if isinstance(step, int) else step for step in way)
        for done in ("deleted", "unknown field", *RAW):
            content = json.loads(text)
            holder = content
            for step in way[:-1]:
                holder = holder[step]
            if done == "deleted":
                del holder[way[-1]]
            elif done == "unknown field":
                if not isinstance(holder[way[-1]], dict):
                    continue
                holder[way[-1]]["forged"] = 1
            else:
                holder[way[-1]] = HOLE
            changed = json.dumps(content, indent=1)
            yield name, done, changed.replace(f'"{HOLE}"', RAW.get(done, ""))
    yield "", "unknown field", json.dumps(json.loads(text) | {"forged": 1}, indent=1)
    for done, raw in RAW.items():
        yield "", done, raw


def sealed(text: str) -> bytes:
    return _sealed(text.removesuffix("\n}").encode())


def unsealed(content: bytes) -> str:
    """The text of a record without its seal."""
    record = json.loads(content)
    del record["sha256"]
    return json.dumps(record, indent=1)


def named(error: BenchError, folder: Path, *names: str) -> None:
    assert str(folder) in str(error)
    for name in names:
        assert name in str(error)


def survives(folder: Path, name: str) -> None:
    """A report and ``status`` work, or name the folder and the file."""
    try:
        read(folder)
    except BenchError as error:
        named(error, folder, name)
    text = status(read_suite(folder), folder)
    assert "damaged" not in text or name in text


def accepted(folder: Path, key: str, thorough: bool = False) -> dict[str, set[str]]:
    """By place, what was done to a record and says something else than before; all that is refused
    is one error that names it."""
    store = Store(folder)
    path = store.record_path(key)
    before, original = path.read_bytes(), store.read(key)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for number, (place, done, text) in enumerate(forgeries(unsealed(before))):
        if place.startswith("config.victim.") and not thorough:
            continue  # as in the victim's record: another key
        content = sealed(text)
        store.content = lambda name, content=content: content  # most are not worth a file
        try:
            record = store.read(key)
        except DamagedError as error:
            named(error, folder, path.name)
            if thorough or number % EVERY == 0:
                path.write_bytes(content)
                with pytest.raises(DamagedError, match=path.name):
                    read(folder)
                text = status(read_suite(folder), folder)
                assert "1 damaged" in text
                assert str(path) in text
        else:
            path.write_bytes(content)
            survives(folder, key)
            if record != original:
                found[place].add(done)
    path.write_bytes(before)
    return dict(found)


def all_free(found: dict[str, set[str]]) -> None:
    """Only what ``FREE`` lists was accepted."""
    for place, done in found.items():
        allowed = [what for pattern, what, _ in FREE if re.fullmatch(pattern, place)]
        assert allowed, (place, done)
        assert done <= set.union(*allowed), place


@pytest.mark.parametrize("kind", ["victim", "attack", "failed"])
def test_a_forged_record_is_one_clear_error_or_harmless(folder, kind):
    found = accepted(folder, trials(folder)[kind].key)
    assert sum(map(len, found.values())) < 80
    all_free(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["victim", "attack", "failed"])
def test_every_forged_record_through_a_report_and_status(folder, kind):
    all_free(accepted(folder, trials(folder)[kind].key, thorough=True))


def test_a_forged_suite_is_one_clear_error_or_another_suite(folder):
    path = folder / "suite.json"
    for place, _, text in forgeries(path.read_text()):
        path.write_text(text)
        try:
            suite = read_suite(folder)
        except BenchError as error:
            named(error, folder)
        else:
            known = place in ("name", "description", "command", "attack_seeds")
            assert known or place.startswith(("victims", "attacks")), place
            assert status(suite, folder).startswith(f"{suite.name}: {len(suite.trials)} trials: ")
            with contextlib.suppress(BenchError):
                read(folder)


def test_a_suite_that_names_a_trial_twice_is_refused(folder):
    path = folder / "suite.json"
    content = json.loads(path.read_text())
    for name in ("victims", "attacks"):
        path.write_text(json.dumps(content | {name: 2 * content[name]}))
        with pytest.raises(BenchError, match=r"suite.json is altered \(it has a trial twice\)"):
            read_suite(folder)


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


def test_a_folder_of_another_checkout_is_surveyed_but_not_run(tmp_path, here, refused):
    """Its defense and its attack are unknown here: what they finished cannot be verified."""
    victims = [victim_trial("none", None), victim_trial("their_defense", 0.5)]
    attacks = [attack_trial(v, name) for v in victims for name in ("mean", "their_attack")]
    suite = Suite("theirs", "", tuple(victims), tuple(attacks), "smashbench run theirs")
    store = Store(tmp_path)
    save_suite(suite, tmp_path)
    for victim in victims:
        weights = store.write_weights(victim.key, b"weights")
        keep_victim(store, victim, checkpoint_sha256=weights)
    of_theirs = store.victim(victims[0].key).checkpoint_sha256
    for attack in attacks[:2]:
        keep_attack(store, attack, victim_sha256=of_theirs)
    text = here("status", tmp_path).stdout
    assert "6 trials: 2 done, 2 unverified, 2 missing" in text
    listed = text.split("unverified (finished, by a defense or an attack that this checkout lacks)")
    assert victims[1].key in listed[1]
    assert attacks[1].key in listed[1]
    assert len(read(tmp_path).rows) == 2
    refused(["rerun", tmp_path], str(tmp_path), "this checkout has no defense 'their_defense'")
    assert {path.stem for path in (tmp_path / "records").iterdir()} == {
        trial.key for trial in (*victims, *attacks[:2])
    }
