"""A second device that is this CPU: what a GPU would refuse or wait for shows without one.

Tensors on it hold one of the CPU and pass every operation on to it. Mixing them with tensors of
the CPU is an error, as on a GPU; what makes the host wait for the device is counted. So code for
a GPU runs whole, with the numbers of the CPU. It says nothing about kernels or speed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

NAME = "pretend"
aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
WAITING = {
    aten._local_scalar_dense.default,
    aten._unique2.default,
    aten.equal.default,
    aten.masked_select.default,
    aten.nonzero.default,
}
MAKERS = ("tensor", "as_tensor", "arange", "eye", "linspace", "randperm")
"""What fills or resizes a tensor of the device behind our back."""

waits: list[str] = []
"""What the host waited for."""

library = torch.library.Library("_", "IMPL")


class Pretend(Tensor):
    """A tensor on the device."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "Pretend":
        tensor = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )
        tensor.held = held
        return tensor

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return _run(operation, *args, **(kwargs or {}))

    def __getitem__(self, index: Any) -> Tensor:  # a list would become a tensor out of our sight
        return super().__getitem__(torch.tensor(index) if isinstance(index, list) else index)

    def tolist(self) -> Any:
        waits.append("tolist")
        return self.held.tolist()


@contextmanager
def pretending() -> Iterator[torch.device]:
    """The device, for as long as the context lasts."""
    device = registered()
    if device is None:
        pytest.skip("this torch cannot have a device written in Python")
    waits.clear()
    with pytest.MonkeyPatch.context() as patch:
        for name in MAKERS:
            patch.setattr(torch, name, _made_here(getattr(torch, name)))
        patch.setattr(torch._VF, "gru_cell", _gru_cell)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            yield device
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(False)


@cache
def registered() -> torch.device | None:
    """The device, if this torch can have one that is written in Python. Autograd, which counts
    devices at its first backward pass in a process, has to find it there."""
    if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        return None
    backend_registration._setup_privateuseone_for_python_backend(NAME)
    library.fallback(_run, "PrivateUse1")
    return torch.device(NAME, 0)


def _run(operation: Any, *args: Any, **kwargs: Any) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    ours = [tensor for tensor in tensors if isinstance(tensor, Pretend)]
    if ours and operation not in COPIES:
        for tensor in tensors:
            index = operation in INDEXING and not tensor.is_floating_point()
            if not isinstance(tensor, Pretend) and tensor.dim() and not index:
                raise RuntimeError(f"{operation}: all tensors must be on one device")
    here = bool(ours)
    if operation is aten.copy_.default:
        here = isinstance(args[0], Pretend)
    elif kwargs.get("device") is not None:
        here = kwargs["device"].type == NAME
        kwargs |= {"device": torch.device("cpu")}
    masked = operation in INDEXING and any(_is_mask(leaf) for leaf in tree_leaves(args[1]))
    crossing = operation in COPIES and len({here, *(isinstance(t, Pretend) for t in tensors)}) == 2
    if (ours and (operation in WAITING or masked)) or crossing:
        waits.append(str(operation))
    if torch.Tag.inplace_view in operation.tags:
        _reshape(operation, args, kwargs)
    args, kwargs = tree_map(lambda x: x.held if isinstance(x, Pretend) else x, (args, kwargs))
    known = {id(tensor.held): tensor for tensor in ours}

    def wrapped(result: Any) -> Any:
        known_as = known.get(id(result))
        if known_as is not None:
            assert known_as.stride() == result.stride(), operation
            return known_as
        return Pretend(result) if here and isinstance(result, Tensor) else result

    return tree_map(wrapped, operation(*args, **kwargs))


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype == torch.bool


def _reshape(operation: Any, args: Any, kwargs: Any) -> None:
    """Gives the wrapper the shape and strides that ``operation`` gives what it holds."""
    with torch._C._DisableTorchDispatch():
        before = torch._C._meta_in_tls_dispatch_include()
        torch._C._set_meta_in_tls_dispatch_include(True)
        try:
            operation(*args, **kwargs)
        finally:
            torch._C._set_meta_in_tls_dispatch_include(before)


def _made_here(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def made(*args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        if isinstance(args[0], Pretend):
            return args[0].to(device=device, **kwargs)
        made = make(*args, **kwargs)
        if device is None or torch.device(device).type != NAME:
            return made.to(device)
        if "tensor" in make.__name__:
            waits.append(make.__name__)
        return Pretend(made)

    return made


def _gru_cell(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Off the CPU torch would call one kernel that the CPU does not have."""
    r, z, n = linear(x, w, b).chunk(3, 1)
    s, t, m = linear(h, u, c).chunk(3, 1)
    z = (z + t).sigmoid()
    return (1 - z) * (n + (r + s).sigmoid() * m).tanh() + z * h
