"""The wall between an attack and what it attacks."""

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, NamedTuple

import cloudpickle
import torch
from torch import Tensor, nn

from smashbench.attacks import Attack, Knowledge
from smashbench.attacks.base import SERVICES, AttackError, Grant
from smashbench.bench.experiment.cell import ERRORS, HEAVY, HELLO
from smashbench.bench.experiment.mail import GarbledError, Mail
from smashbench.bench.processes import environment

SERVER = "import sys; from smashbench.bench.experiment.cell import serve; serve(int(sys.argv[1]))"
_heavy: set[str] = set()
"""Of ``HEAVY``, what attacks have imported so far."""


class LostError(Exception):
    """The process of an attack ended before it could say why."""


class CrashedError(Exception):
    """An attack raised an error; the message is its traceback."""


class Reconstruction(NamedTuple):
    """What an attack made of the test releases, what it says of its fit, and the seconds it
    took."""

    guess: Tensor
    converged: bool
    history: list[float]
    fit_seconds: float
    reconstruct_seconds: float


def behind_wall(
    attack: Attack, granted: Knowledge, release: Callable[[], Tensor], seed: int
) -> Reconstruction:
    """Fits ``attack`` and reconstructs from what ``release`` returns once it is fitted.

    The attack runs in a process that never held anything but what it is sent: its grants, and in
    the end the releases. Functions in ``granted`` stay on this side; the attack gets stand-ins
    that pass a tensor through a pipe and wait for the answer, which is drawn here. So there is
    nothing to find in its memory, on its stack or by imports, and what it does to PyTorch, to its
    random numbers or to a metric, it does to itself. What comes back is JSON and tensors. Files on
    disk stay within its reach, as they do for any program, and so does the memory of other
    processes where the system lets it; a plug-in's file is run on this side when it is loaded.

    Args:
        attack: unfitted.
        granted: what its threat model grants, see ``grant``.
        release: makes the releases (N, C', H', W') or (N, n, C', H', W') to reconstruct from.
        seed: of everything random about the attack.

    Raises:
        AttackError: the attack's own, or what it sent is no reconstruction.
        CrashedError: it raised another error.
        LostError: its process ended.
    """
    device = granted.images.device
    with enter() as connection:
        mail = Mail(connection, device)
        with _other_side():
            _furnish(mail, attack, granted, seed)
            fitted, _ = _await(mail, granted, "fitted")
        z = release()
        with _other_side():
            mail.send("releases", tensors={"z": z})
            done, tensors = _await(mail, granted, "done")
            _heavy.update(name for name in HEAVY if name in done["heavy"])
            shape = (len(z), *granted.images.shape[1:])
            guess = tensors["guess"]
            if guess.shape != shape or not guess.is_floating_point():
                found = tuple(guess.shape)
                raise AttackError(f"reconstruct gives {found}: should be images {shape} in [0, 1]")
            history = [float(loss) for loss in fitted["history"]]
            seconds = float(fitted["seconds"]), float(done["seconds"])
            return Reconstruction(guess, bool(fitted["converged"]), history, *seconds)


@contextmanager
def _other_side() -> Iterator[None]:
    """Says what it means that a cell fell silent, or sent something strange."""
    try:
        yield
    except (EOFError, OSError):
        why = "its process ended without a word, perhaps for lack of memory"
        raise LostError(f"the attack was lost: {why}") from None
    except (GarbledError, KeyError, TypeError, ValueError) as error:
        raise AttackError(f"its process sent what is no answer: {error}") from None


def enter() -> "Connection[bytes, bytes]":
    """A pipe to a new cell."""
    sys.stdout.flush()
    sys.stderr.flush()
    for _ in range(2):
        ours, theirs = socket.socketpair()
        with ours, theirs, suppress(OSError):
            message = HELLO + " ".join(_heavy).encode()
            door = _server()
            socket.send_fds(door, [message], [theirs.fileno(), 1, 2])
            door.recv(len(HELLO))  # macOS may lose one that is closed before (bpo-14669)
            theirs.close()
            if ours.recv(len(HELLO)) == HELLO:
                return Connection(ours.detach())
        _server.cache_clear()  # it was killed: another is started
    raise LostError("the attack was lost: the server of its process does not answer")


@cache
def _server() -> socket.socket:
    """The socket of the server that cells are forked from; it ends with this process."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", SERVER, str(theirs.fileno())]
    inherited = environment()  # one that forks has one thread; PyTorch's are set in the cell
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        command,
        pass_fds=[theirs.fileno()],
        env=os.environ | inherited,
        stdin=subprocess.DEVNULL,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _furnish(mail: Mail, attack: Attack, granted: Knowledge, seed: int) -> None:
    """Sends all that the attack may know."""
    mail.send(
        "enter",
        path=sys.path,
        device=str(mail.device),
        threads=torch.get_num_threads(),
        deterministic=torch.backends.cudnn.deterministic,
        debug_mode=torch.get_deterministic_debug_mode(),
    )
    mail.connection.send_bytes(_pickled(attack, granted))
    tensors = {"images": granted.images, "groups": granted.groups}
    mail.send(
        "granted",
        seed=seed,
        classes=granted.classes,
        services=list(granted.services),
        others_count=granted.others_count,
        tensors={name: value for name, value in tensors.items() if value is not None},
    )


def _pickled(attack: Attack, granted: Knowledge) -> bytes:
    """The attack, and the client as far as it is granted, on the CPU; classes that no file has
    (of a notebook, or a plug-in) by value.

    Raises:
        AttackError: they cannot be sent.
    """
    networks = [
        part
        for part in (*(granted.white_box or ()), granted.untrained)
        if isinstance(part, nn.Module)
    ]
    for module in list(sys.modules.values()):
        made = isinstance(module, ModuleType) and module.__spec__ is None
        if made and hasattr(module, "__file__") and module.__name__ != "__main__":
            cloudpickle.register_pickle_by_value(module)  # of a plug-in: nobody could import it
    try:
        for network in networks:
            network.cpu()
        pickled: bytes = cloudpickle.dumps((attack, granted.white_box, granted.untrained))
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise AttackError(f"cannot be sent to the process that it runs in ({why})") from None
    return pickled


def _await(mail: Mail, granted: Knowledge, wanted: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Answers questions until there is what is wanted.

    Raises:
        What ``behind_wall`` does.
    """
    while True:
        kind, facts, tensors = mail.receive()
        if kind == wanted:
            return facts, tensors
        if kind == "failed":
            known = ERRORS.get(facts["error"])
            raise known(facts["text"]) if known else CrashedError(facts["trace"].rstrip())
        if kind != "ask":
            raise GarbledError(f"{kind!r} instead of {wanted!r}")
        try:
            answer = granted.services[facts["service"]](tensors["value"])
        except Exception as error:
            text = (
                str(error) if type(error) in ERRORS.values() else f"{type(error).__name__}: {error}"
            )
            mail.send("refused", error=type(error).__name__, text=text)
        else:
            mail.send("answer", tensors={"answer": answer})


def grant(needs: Collection[Grant], everything: Knowledge) -> Knowledge:
    """``everything`` without what is not among the grants."""
    granted = {
        name: service for name, service in everything.services.items() if SERVICES[name] in needs
    }
    return replace(
        everything,
        services=granted,
        others_count=everything.others_count if "unpaired" in needs else 0,
        white_box=everything.white_box if "client" in needs else None,
        untrained=everything.untrained if "architecture" in needs else None,
    )
