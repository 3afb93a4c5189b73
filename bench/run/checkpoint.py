"""The state of a training on disk, so that an interruption costs an epoch and not the training."""

import io
import sys
from contextlib import suppress

import torch

from smashbench.bench.experiment.progress import Keeper, State
from smashbench.bench.store.files import write_whole
from smashbench.bench.store.store import Store
from smashbench.bench.suite.source import source_of
from smashbench.bench.suite.trial import Trial


def keeper_of(trial: Trial, store: Store, data_hash: str, first: str | None) -> Keeper:
    """Keeps the state of a victim's training in ``checkpoints/KEY.pt`` until its record is written.

    A state of other code, other images or other first weights (of SHA-256 ``first``), or one that
    cannot be read, is no state. Reading one runs no code in it (``weights_only``).
    """
    path = store.checkpoint_path(trial.key)
    identity = {"key": trial.key, "source": source_of(trial), "data_hash": data_hash}
    identity |= {"first": first}

    def load() -> State | None:
        try:
            found = torch.load(path, map_location="cpu", weights_only=True)
            ours = found["identity"] == identity
            state: State = found["state"]
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever a damaged file raises
            print(f"{path} cannot be read ({error}); training starts anew", file=sys.stderr)
            return None
        if not ours:
            what = "other code, images or first weights"
            print(f"{path} is of {what}; training starts anew", file=sys.stderr)
            return None
        print(f"{path}: goes on after epoch {len(state['history'])}", file=sys.stderr)
        return state

    def save(state: State) -> None:
        content = io.BytesIO()
        torch.save({"identity": identity, "state": state}, content)
        write_whole(path, content.getvalue())

    return Keeper(load, save)


def forget(trial: Trial, store: Store) -> None:
    """Deletes the state of a training that has ended."""
    with suppress(OSError):
        store.checkpoint_path(trial.key).unlink(missing_ok=True)
