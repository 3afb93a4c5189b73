"""Results folders as others would send them."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from smashbench.bench.store.saved_suite import read_suite, save_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.config import key_of
from smashbench.bench.suite.trial import Suite, Trial

DEFENSE = "kmeans_cem"


def submission(
    run: Path,
    folder: Path,
    *,
    training=None,
    record=None,
    mse=None,
    label=None,
    attack=None,
    strength=None,
    options=None,
    whole=False,
) -> Path:
    """What an author would send: the records of one defense, or of the whole run, with changes to
    its training, to its records, to its scores, to its name, to its strength or to its other
    options."""
    source, store = Store(run), Store(folder)
    victims, attacks = [], []
    for trial in read_suite(run).trials:
        if trial.victim.defense.label != DEFENSE and not whole:
            continue
        old = trial.victim
        own = old.defense.options | ({"lam": strength} if strength else {}) | (options or {})
        renamed = {"label": label or old.defense.label, "options": own}
        renamed |= {"strength": strength} if strength else {}
        victim = config = old.model_copy(
            update={
                "training": old.training.model_copy(update=training or {}),
                "defense": old.defense.model_copy(update=renamed),
            }
        )
        if trial.attack:
            choices = trial.attack.options | (attack or {}).get(trial.attack.label, {})
            chosen = trial.attack.model_copy(update={"options": choices})
            config = trial.config.model_copy(update={"victim": victim, "attack": chosen})
        new = Trial(key_of(config), config, key_of(victim) if trial.attack else None)
        (attacks if trial.attack else victims).append(new)
        found = source.finished(trial.key)
        arrays = {name: source.arrays_path(trial.key, name).read_bytes() for name in found.arrays}
        if mse and trial.attack:
            values = load(arrays["scores"])
            arrays["scores"] = save(values | {"mse": np.float32(mse) * values["mse"]})
        changes = {"key": new.key, "config": new.config, "parent": new.parent}
        changes |= {"arrays": store.write_arrays(new.key, arrays), **(record or {})}
        store.write(found.model_copy(update=changes))
    save_suite(Suite("theirs", "", tuple(victims), tuple(attacks)), folder)
    return folder
