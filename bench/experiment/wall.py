"""The wall between an attack and what it attacks."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smashbench.attacks import Attack, Knowledge
from smashbench.attacks.base import SERVICES, Grant

Service = Callable[[Tensor], Tensor]
CHUNK = 500
"""Releases per call of ``reconstruct``."""


class Reconstruction(NamedTuple):
    """What an attack made of the test releases, and the seconds it took."""

    guess: Tensor
    fit_seconds: float
    reconstruct_seconds: float


class _Done(NamedTuple):
    result: Tensor | None
    error: BaseException | None


def behind_wall(
    attack: Attack, granted: Knowledge, release: Callable[[], Tensor]
) -> Reconstruction:
    """Fits ``attack`` and reconstructs from what ``release`` returns once it is fitted.

    The attack runs in a thread of its own. The functions in ``granted`` stay on this side: the
    attack gets stand-ins that pass a tensor over a queue and wait for the answer, as if the
    client were another machine. So neither its stack nor anything it holds refers to test
    images, labels or an encoder it was not granted. The wall stops mistakes, not malice: Python
    code that imports its way to the harness can read anything in the process.

    Args:
        attack: unfitted.
        granted: what its threat model grants, see ``grant``.
        release: makes the releases (N, C', H', W') or (N, n, C', H', W') to reconstruct from.

    Raises:
        Whatever the attack raises.
    """
    requests: SimpleQueue[Any] = SimpleQueue()
    stand_ins = {name: _stand_in(name, requests) for name in granted.services}
    shielded, services = replace(granted, services=stand_ins), granted.services
    started = _now()
    _run(lambda: _fit(attack, shielded), requests, services)
    fitted, z = _now(), release()
    released = _now()
    guess = _run(lambda: _reconstruct(attack, z), requests, services)
    assert guess is not None
    return Reconstruction(guess, fitted - started, _now() - released)


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _fit(attack: Attack, knowledge: Knowledge) -> None:
    attack.fit(knowledge)


def _reconstruct(attack: Attack, z: Tensor) -> Tensor:
    parts = [attack.reconstruct(part).detach().float() for part in z.split(CHUNK)]
    return torch.cat(parts)


def _stand_in(name: str, requests: "SimpleQueue[Any]") -> Service:
    def ask(value: Tensor) -> Tensor:
        answers: SimpleQueue[_Done] = SimpleQueue()
        requests.put((name, value, answers))
        answer = answers.get()
        if answer.error is not None:
            raise answer.error
        assert answer.result is not None
        return answer.result

    return ask


def _run(
    work: Callable[[], Tensor | None],
    requests: "SimpleQueue[Any]",
    services: Mapping[str, Service],
) -> Tensor | None:
    """Runs ``work`` in a thread and answers its requests until it is done."""

    def run() -> None:
        requests.put(_call(work))

    Thread(target=run, daemon=True).start()
    while not isinstance(request := requests.get(), _Done):
        name, value, answers = request
        answers.put(_anonymous(_call(partial(services[name], value))))
    if request.error is not None:
        raise request.error
    return request.result


def _call(work: Callable[[], Tensor | None]) -> _Done:
    try:
        return _Done(work(), None)
    except BaseException as error:  # it is raised again on the other side
        return _Done(None, error)


def _anonymous(done: _Done) -> _Done:
    """An error without the frames that it came through and the errors behind it."""
    if done.error is None:
        return done
    done.error.__context__ = done.error.__cause__ = None
    return _Done(None, done.error.with_traceback(None))


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
