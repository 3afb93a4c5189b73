"""Encoders and heads that somebody else made, as a victim that attacks can be run on."""

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smashbench.attacks.base import AttackError
from smashbench.bench.auditing.tensors import tensor_of
from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.experiment.victim import Victim
from smashbench.defenses import Defense

PREFIX = "smashbench_audited_"
"""Of the names of modules that are made from files."""


class Dumped(nn.Module):
    """Stands where the encoder would: there are its features alone."""

    def forward(self, x: Tensor) -> Tensor:
        raise AttackError("needs the encoder: the audit has features alone, give --model")


class Called(nn.Module):
    """Somebody's encoder or head: a module, or any function of a batch. It is given a copy, laid
    out as ``view`` expects it, and may work in place; a function is given one on the CPU, since a
    network inside it is not moved.

    Args:
        function: takes a tensor (B, ...) and returns a tensor or an array of B rows.
        what: for messages: ``encoder``, ``head``.
    """

    def __init__(self, function: Callable[[Tensor], Any], what: str) -> None:
        super().__init__()
        self.function, self.what = function, what
        self.shape: tuple[int, ...] | None = None
        """Of one row of what it returned first."""

    def forward(self, x: Tensor) -> Tensor:
        images = x.clone(memory_format=torch.contiguous_format)
        if not isinstance(self.function, nn.Module):
            images = images.cpu()
        try:
            found = self.function(images)
        except (Exception, SystemExit) as error:
            batch = f"a batch {tuple(x.shape)} of float32"
            why = f"{type(error).__name__}: {error}"
            raise BenchError(f"the {self.what} fails on {batch}: {why}") from error
        if isinstance(found, np.ndarray):
            found = tensor_of(found, f"what the {self.what} returns")
        if not isinstance(found, Tensor) or found.ndim < 2 or len(found) != len(x):
            shown = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            hint = "; a function that makes it takes no argument" * isinstance(found, nn.Module)
            raise BenchError(
                f"the {self.what} returns {shown} for a batch of {len(x)}: should be a tensor with "
                f"a row for each{hint}"
            )
        if found.is_complex():
            raise BenchError(
                f"the {self.what} returns complex numbers: should be real; to send both parts, "
                "return torch.view_as_real(z)"
            )
        shape = tuple(found.shape[1:])
        if 0 in shape:
            raise BenchError(
                f"the {self.what} returns {tuple(found.shape)}, no number for an image: what did "
                "it cut off?"
            )
        if shape != (self.shape or shape):
            raise BenchError(
                f"the {self.what} returns {self.shape} for an image of one batch and {shape} of "
                "another: should be one shape whatever the batch; pad or cut it to that"
            )
        self.shape = shape
        return found.to(x.device).float()


class Method(nn.Module):
    """A method of a module as a module: copied, frozen and moved with all that it uses.

    Args:
        bound: the method.
    """

    def __init__(self, bound: MethodType) -> None:
        super().__init__()
        self.owner, self.function = bound.__self__, bound.__func__

    def forward(self, x: Tensor) -> Any:
        return self.function(self.owner, x)


class OneOf(Defense):
    """The client sends one of several releases that were recorded of an image: features
    (B, R, ...) to (B, ...), each drawn at random."""

    transform_is = "random"

    def transform(self, z: Tensor) -> Tensor:
        chosen = torch.randint(z.shape[1], (len(z),), device=z.device)
        return z[torch.arange(len(z), device=z.device), chosen]


class Given(Victim):
    """A victim that nobody trains: an encoder as it is, a defense at inference, a head.

    Args:
        encoder: images (B, C, H, W) in [0, 1] to features; ``Dumped`` where there are features
            alone.
        defense: what is done to the features.
        head: releases (B, ...) to logits; None where there is none.
        feature_shape: of one image.
    """

    def __init__(
        self,
        encoder: nn.Module,
        defense: Defense,
        head: nn.Module | None,
        feature_shape: tuple[int, ...],
    ) -> None:
        nn.Module.__init__(self)
        self.encoder, self.defense = nn.Sequential(encoder), defense
        self.head = nn.Sequential(head or _NoHead())
        self.feature_shape, self.begun = feature_shape, True
        self.requires_grad_(False).eval()


class _NoHead(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        raise AttackError("needs the head: give --head")


def called(value: Any, what: str) -> Called:
    """An encoder or a head from what a user names.

    Args:
        value: a module; a function of a batch; or ``FILE.py:NAME`` of one of them, or of a
            function without arguments (a class, too) that makes one.
        what: ``encoder`` or ``head``.

    Raises:
        BenchError: it cannot be loaded, or is none of these.
    """
    option = "--model" if what == "encoder" else "--head"
    found = _loaded(value, option) if isinstance(value, str | Path) else value
    if not isinstance(found, nn.Module) and callable(found) and _makes(found):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise BenchError(f"{option} {value}: {type(error).__name__}: {error}") from error
    if isinstance(found, type) and issubclass(found, nn.Module):
        raise BenchError(
            f"{option} {value}: the class {found.__name__} needs arguments; name a function "
            "without arguments that makes one"
        )
    if inspect.ismethod(found) and isinstance(found.__self__, nn.Module):
        found = Method(found)
    if isinstance(found, nn.Module):  # it is frozen here, and stays as it is elsewhere
        with suppress(Exception), torch.no_grad():  # a copy of TorchScript needs no gradients
            found = deepcopy(found)
    if not callable(found):
        raise BenchError(
            f"{option} {value}: should be a torch.nn.Module, a function of a batch, or a function "
            f"without arguments that makes one of them; it is {type(found).__name__}"
        )
    return Called(found, what)


def _makes(function: Callable[..., Any]) -> bool:
    """Whether it takes no argument, and so makes what is meant. A function of any number of
    arguments, as a decorator may leave it, takes a batch."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    takes = {each.kind for each in parameters if each.default is each.empty}
    takes.discard(inspect.Parameter.VAR_KEYWORD)
    any_number = inspect.Parameter.VAR_POSITIONAL
    return not takes or (isinstance(function, type) and takes == {any_number})


def _loaded(value: str | Path, option: str) -> Any:
    """What ``FILE.py:NAME`` names; the file is run, and may import its neighbours."""
    path, colon, name = str(value).rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise BenchError(f"{option} {value}: write FILE.py:NAME, e.g. mine.py:encoder")
    file = Path(path)
    try:
        source = file.read_bytes()
    except OSError as error:
        raise BenchError(f"{option} {file}: {error.strerror or error}") from None
    if (known := _RUN.get(file.resolve())) and known[0] == source:
        return _named_in(known[1], name, f"{option} {file}")
    # without a spec, so that what it defines is sent to attacks by value (see ``wall``)
    module = ModuleType(PREFIX + file.stem)
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    if (folder := str(file.parent.resolve())) not in sys.path:
        sys.path.append(folder)
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise BenchError(f"{option} {file}: {type(error).__name__}: {error}") from error
    _RUN[file.resolve()] = source, module
    return _named_in(module, name, f"{option} {file}")


_RUN: dict[Path, tuple[bytes, ModuleType]] = {}
"""Files that were run, with their source: an encoder and a head of one file are of one run of it,
and may share a network."""


def _named_in(module: ModuleType, name: str, where: str) -> Any:
    if not hasattr(module, name):
        known = [each for each in vars(module) if not each.startswith("_")]
        raise BenchError(f"{where}: {unknown('name', name, known)}")
    return getattr(module, name)


def differentiable(encoder: Called, x: Tensor) -> bool:
    """Whether an attack may hold the encoder and follow its gradients: it is a module, and they
    reach images x (n, C, H, W)."""
    if not isinstance(encoder.function, nn.Module):
        return False
    images = x.clone().requires_grad_()
    try:
        (found,) = torch.autograd.grad(encoder(images).sum(), images, allow_unused=True)
    except (RuntimeError, BenchError):
        return False
    return found is not None and bool(found.isfinite().all())
