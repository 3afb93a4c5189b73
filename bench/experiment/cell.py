"""The cell: the process that an attack runs in.

Cells are forked from a server that has imported PyTorch and the attacks, and was never given
anything. So nothing that a cell can reach in its memory is more than what it was sent.
"""

import faulthandler
import os
import pickle
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from threading import Event, Lock, Thread
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from smashbench.attacks import Knowledge
from smashbench.attacks.base import AttackError, OversizedError
from smashbench.bench.experiment.mail import Mail

CHUNK = 500
"""Releases per call of ``reconstruct``."""
ERRORS: dict[str, type[Exception]] = {"AttackError": AttackError, "OversizedError": OversizedError}
"""What is raised again on the other side as what it was."""
HEAVY = ("sklearn.mixture", "torch._dynamo")
"""What attacks import when they first need it, in seconds; once one has, the server does it for all
that follow."""
HELLO = b"+"
"""What is said through the socket, before the names of what to import; answered by the server, when
it has the pipe, and by the cell."""
OVER = Event()
"""Whether everything was said."""
_ENDING = Lock()


def serve(descriptor: int) -> None:
    """The life of the server: for every pipe that comes through the socket, a cell at its end.

    Args:
        descriptor: of the socket; with a pipe come the files that the cell writes to.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as door:
        while True:
            message, descriptors, *_ = socket.recv_fds(door, 1000, 3)
            if not descriptors:
                os._exit(0)
            door.send(HELLO)
            for name in HEAVY:
                if name in message.decode():
                    import_module(name)
            if os.fork() == 0:
                door.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number, file in enumerate(descriptors[1:], start=1):
                    os.dup2(file, number)
                os.write(descriptors[0], HELLO)
                _locked_in(descriptors[0])
            for file in descriptors:
                os.close(file)


def _locked_in(descriptor: int) -> None:
    """The life of a cell; ends the process."""
    Thread(target=_end_with_the_other_side, args=(descriptor,), daemon=True).start()
    try:
        inhabit(Connection(descriptor))
    except (EOFError, OSError):
        _end(traceback.print_exc)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _end_with_the_other_side(descriptor: int) -> None:
    watch = select.poll()
    watch.register(descriptor, select.POLLHUP)
    watch.poll()
    time.sleep(0.1)  # a thread that waits for an answer sees it, too, and says more
    _end(partial(faulthandler.dump_traceback, 2))


def _end(say_where: Callable[[], None]) -> None:
    """Ends the process, which writes once where it was, if its work was not done: whichever of
    its two threads sees first that the other side is gone."""
    with _ENDING:
        if not OVER.is_set():
            say_where()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def inhabit(connection: "Connection[bytes, bytes]") -> None:
    """Fits an attack to what it is sent, and reconstructs.

    In come the path of imports, a pickle of the attack and of the client where it is granted, and
    what else is granted; out go questions to the services, what is known of the fit, and images.
    """
    mail = Mail(connection, torch.device("cpu"))
    _, facts, _ = mail.receive()
    sys.path[:] = facts["path"]
    mail.device = torch.device(facts["device"])
    try:
        torch.set_num_threads(facts["threads"])
        torch.backends.cudnn.deterministic = facts["deterministic"]
        torch.set_deterministic_debug_mode(facts["debug_mode"])
        attack, white_box, untrained = pickle.loads(connection.recv_bytes())
        _, granted, tensors = mail.receive()
        knowledge = Knowledge(
            images=tensors["images"],
            classes=granted["classes"],
            services=_stand_ins(mail, granted["services"]),
            groups=tensors.get("groups"),
            others_count=granted["others_count"],
            white_box=_moved(white_box, mail.device),
            untrained=_moved(untrained, mail.device),
        )
        torch.manual_seed(granted["seed"])
        begun = _now()
        attack.fit(knowledge)
        history = [float(loss) for loss in attack.history_]
        mail.send(
            "fitted", seconds=_now() - begun, converged=bool(attack.converged_), history=history
        )
        z = mail.receive()[2]["z"]
        begun = _now()
        parts = [attack.reconstruct(part).detach().float() for part in z.split(CHUNK)]
        seconds = _now() - begun
        OVER.set()
        heavy = [name for name in HEAVY if name in sys.modules]
        mail.send("done", seconds=seconds, heavy=heavy, tensors={"guess": torch.cat(parts)})
    except (EOFError, OSError):
        raise
    except BaseException as error:
        OVER.set()
        name = next((n for n, kind in ERRORS.items() if type(error) is kind), "")
        mail.send("failed", error=name, text=str(error), trace=traceback.format_exc())


def _stand_ins(mail: Mail, names: list[str]) -> dict[str, Callable[[Tensor], Tensor]]:
    """Functions that ask the other side, as if the client were another machine."""
    lock = Lock()

    def ask(name: str, value: Tensor) -> Tensor:
        with lock:
            mail.send("ask", service=name, tensors={"value": value})
            kind, facts, tensors = mail.receive()
        if kind == "refused":
            raise ERRORS.get(facts["error"], RuntimeError)(facts["text"])
        return tensors["answer"]

    return {name: partial(ask, name) for name in names}


def _moved(granted: Any, device: torch.device) -> Any:
    """A client or an encoder with its networks on ``device``."""
    for part in granted if isinstance(granted, tuple) else (granted,):
        if isinstance(part, nn.Module):
            part.to(device)
    return granted


def _now() -> float:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return perf_counter()
