"""What every kind of work on a trial needs of the store: victims, and arrays."""

from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import save

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.store.record import VictimRecord
from smashbench.bench.store.store import Store
from smashbench.bench.suite.config import VictimConfig
from smashbench.bench.suite.make_defense import maker
from smashbench.datasets import Split


def build_victim(config: VictimConfig, split: Split) -> Victim:
    """An untrained victim, on the split's device."""
    model = MODELS[config.model.name](**config.model.options)
    victim = Victim(model, maker(config.defense), split.shape, split.classes)
    return victim.to(split.test.x.device)


def trained(store: Store, key: str, split: Split) -> VictimRecord:
    """The record of a victim that was trained on these images.

    Raises:
        BenchError: there is none.
    """
    record = store.victim(key)
    if record is None:
        raise BenchError(f"victim {key} must be trained before it is attacked")
    if record.data_hash != split.hash:
        raise BenchError(
            "the images are not those that the victim was trained with; they would be dealt "
            "otherwise: put back what was changed, or start anew with another --out"
        )
    return record


def restored(store: Store, key: str, checkpoint: str, split: Split) -> Victim:
    """A trained victim, from its weights."""
    record = store.victim(key)
    assert record
    victim = build_victim(record.config, split)
    victim.restore(store.weights(key, checkpoint))
    return victim


def begin_with(victim: Victim, key: str, store: Store, split: Split) -> str:
    """Gives ``victim`` the weights of the undefended one with this key; returns their SHA-256.

    Raises:
        BenchError: that one was not trained on these images.
    """
    first = trained(store, key, split).checkpoint_sha256
    victim.begin(store.weights(key, first))
    return first


def write_arrays(
    store: Store, key: str, files: Mapping[str, Mapping[str, Any]], *, beside: bool = False
) -> dict[str, str]:
    """Writes files of arrays or tensors beside a record, as ``Store.write_arrays`` does; returns
    their SHA-256."""
    contents = {
        file: save({name: torch.as_tensor(values) for name, values in arrays.items()})
        for file, arrays in files.items()
    }
    return store.write_arrays(key, contents, beside=beside)
