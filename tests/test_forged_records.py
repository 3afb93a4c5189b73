"""Records, scores, packs and suites that someone made up: at most one clear error, never a
traceback.

Every forgery carries a right seal, so that only its meaning is wrong.
"""

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smashbench.bench.errors import BenchError
from smashbench.bench.report.rows import read
from smashbench.bench.run.status import status
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.record import sealed
from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests.forge import attack_trial, keep_attack, keep_victim, victim_trial
from tests.forged import named, survives, trials

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
    (r"facts\.group", TEXTS, "any short text; older records lack it"),
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
    (r"means", {"deleted", "table", "unknown field"}, "another checkout may have other metrics"),
    (r"means\.\w+", {"deleted", *NUMBERS}, "in the bounds of its metric"),
    (r"scoring\.\w+", {"deleted"}, "it is measured again"),
    (r"rescored", {"list"}, "nothing was"),
    (r"error", TEXTS, "free text"),
    (r"left_out", {"true"}, "the row says that it was attacked in fewer ways"),
    (r"threat_model\.grants", {"list"}, "an attack may need nothing"),
    (r"threat_model\.grants\.\*", {"deleted", "text"}, "another checkout may have other grants"),
)
"""Place, what may be done there unnoticed, and why nothing is wrong with it."""


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


def unsealed(content: bytes) -> str:
    """The text of a record without its seal."""
    record = json.loads(content)
    del record["sha256"]
    return json.dumps(record, indent=1)


def accepted(folder: Path, key: str) -> dict[str, set[str]]:
    """By place, what was done to a record and says something else than before; all that is refused
    is one error that names it."""
    store = Store(folder)
    path = store.record_path(key)
    before, original = path.read_bytes(), store.read(key)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for place, done, text in forgeries(unsealed(before)):
        content = sealed(text.encode())
        store.content = lambda name, content=content: content  # most are not worth a file
        try:
            record = store.read(key)
        except DamagedError as error:
            named(error, folder, path.name)
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


def test_a_suite_with_one_name_for_two_things_is_one_clear_error(folder):
    """Tables would average them, or one would hide another."""
    path = folder / "suite.json"
    sound = path.read_text()

    def worst(content):
        content["attacks"][0]["label"] = "worst"

    def two_attacks(content):
        content["attacks"][1]["label"] = content["attacks"][0]["label"]

    def two_defenses(content):
        second = content["victims"][1] | {"seed": 1}
        second["defense"] = second["defense"] | {"name": "noise"}
        content["victims"].append(second)

    def two_strengths(strength, seed=0):
        def change(content):
            second = content["victims"][1] | {"seed": seed}
            second["defense"] = second["defense"] | {"strength": strength}
            content["victims"].append(second)

        return change

    def two_options(content):
        """Equal in Python, and of different keys: every attack would be there twice."""
        first = content["attacks"][0]
        first["options"] = {"draws": 1}
        content["attacks"].append(first | {"options": {"draws": 1.0}})

    for change, words in (
        (worst, "attacks.worst: this name is a column"),
        (two_attacks, "attacks.mean: two attacks have this name"),
        (two_defenses, "defenses.kmeans_cem: two have this name at strength 0.5"),
        (two_strengths(0.5000000001), "at strength 0.5, in the six digits that tables show"),
        (two_strengths(0.5000000001, seed=1), "two have this name at strength 0.5"),
        (two_options, "attacks.mean: two attacks have this name"),
    ):
        content = json.loads(sound)
        change(content)
        path.write_text(json.dumps(content))
        with pytest.raises(BenchError, match=words) as caught:
            read_suite(folder)
        named(caught.value, folder, "suite.json is altered")


def all_free(found: dict[str, set[str]]) -> None:
    """Only what ``FREE`` lists was accepted."""
    for place, done in found.items():
        allowed = [what for pattern, what, _ in FREE if re.fullmatch(pattern, place)]
        assert allowed, (place, done)
        assert done <= set.union(*allowed), place


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["victim", "attack", "failed"])
def test_a_forged_record_is_one_clear_error_or_harmless(folder, kind):
    """Also to a report and to ``status``."""
    found = accepted(folder, trials(folder)[kind].key)
    assert sum(map(len, found.values())) < 90
    all_free(found)


@pytest.mark.slow
def test_a_forged_suite_is_one_clear_error_or_another_suite(folder):
    path = folder / "suite.json"
    for place, _, text in forgeries(path.read_text()):
        path.write_text(text)
        try:
            suite = read_suite(folder)
        except BenchError as error:
            named(error, folder)
        else:
            free = ("name", "description", "command", "attack_seeds", "plugins")
            known = place in (*free, "kept", "of_other_code")
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
    listed = text.split("unverified (finished, by a component that is not here;")
    assert victims[1].key in listed[1]
    assert attacks[1].key in listed[1]
    assert len(read(tmp_path).rows) == 2
    refused(["rerun", tmp_path], str(tmp_path), "there is no defense 'their_defense' here")
    assert {path.stem for path in (tmp_path / "records").iterdir()} == {
        trial.key for trial in (*victims, *attacks[:2])
    }
