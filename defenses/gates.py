"""Gates: how much a variance costs."""

from math import log
from typing import Any, Literal

import torch
from torch import Tensor

from smashbench.defenses.base import Diagnostic, Diagnostics
from smashbench.defenses.cem import Cem, NonNegative, Positive

Gate = Literal["log", "linear", "capacity"]
Variance = Literal["per_dim", "mean", "trace"]
GAMMA = 0.01
"""Smoothing of the logarithm (Xia et al., CVPR 2025)."""
QUANTILES = (0.1, 0.5, 0.9)
"""Of the variances in a batch, which are watched against tau."""
WATCHED = 4096
"""Variances that these are taken of, at most, evenly spread: sorting is dear."""


class Thresholded(Cem):
    """Penalties that compare variances with a threshold tau.

    Args:
        var_threshold: tau in units of s^2.
        tau: tau itself, a variance, in place of ``var_threshold``, which then does nothing
            (None). Needed where no noise is
            added.
        cem: the options of ``Cem``.
    """

    diagnostics = Cem.diagnostics | {
        "active_gates": Diagnostic("share of active gates", column=True),
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        var_threshold: NonNegative = 0.125,
        tau: Positive | None = None,
        **cem: Any,
    ) -> None:
        super().__init__(shape, classes, **cem)
        self.var_threshold, self.absolute_tau = var_threshold, tau

    @property
    def tau(self) -> float:
        """The variance below which nothing is compressed any more."""
        return self.absolute_tau or max(self.var_threshold * self.s**2, 1e-8)

    def stand_on(self, noise: float) -> None:
        super().stand_on(noise)
        if not noise and not self.absolute_tau and self._needs_tau:
            raise ValueError(
                "no noise is added, so that tau = var_threshold * noise^2 is 0: give noise, or "
                "tau, the variance that is to cost nothing"
            )

    @property
    def _needs_tau(self) -> bool:
        return True


class Gated(Thresholded):
    """Penalties that are a gate of variances: R = gate(v), v by dimension or over all.

    Args:
        gate: R as a function of a variance v. ``log``: max(0, log(v + gamma) - log(tau + gamma)),
            Xia et al. (CVPR 2025); ``linear``: v; ``capacity``: 1/2 log(1 + v / s^2), nats per
            feature, ours.
        variance: ``per_dim`` gates every dimension and averages; ``mean`` and ``trace`` average
            or sum the variance over the dimensions first.
        gamma: smoothing of the logarithm; for ``log`` alone.
        options: those of ``Thresholded``; with other gates than ``log``, tau decides only which
            gates are called active.
    """

    diagnostics = Thresholded.diagnostics | {
        f"variance_q{100 * q:.0f}": Diagnostic(
            f"variance over tau, {100 * q:.0f} % quantile", logarithmic=True
        )
        for q in QUANTILES
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        gate: Gate = "log",
        variance: Variance = "per_dim",
        gamma: Positive = GAMMA,
        **options: Any,
    ) -> None:
        super().__init__(shape, classes, **options)
        if gate != "log" and gamma != GAMMA:
            raise ValueError(f"gamma = {gamma:g} does nothing with gate = {gate!r}: delete it")
        self.gate_kind, self.variance, self.gamma = gate, variance, gamma

    def stand_on(self, noise: float) -> None:
        super().stand_on(noise)
        if not noise and self.gate_kind == "capacity":
            raise ValueError(
                "gate = 'capacity' is relative to noise, and none is added: give noise"
            )

    @property
    def _needs_tau(self) -> bool:
        return self.gate_kind == "log"

    def gate(self, v: Tensor) -> Tensor:
        """Gate of variances ``v``, elementwise."""
        if self.gate_kind == "linear":
            return v
        if self.gate_kind == "capacity":
            return 0.5 * torch.log1p(v / max(self.s**2, 1e-8))
        return ((v + self.gamma).log() - log(self.tau + self.gamma)).clamp_min(0)

    def reduce(self, squares: Tensor) -> Tensor:
        """Puts the dimensions of ``squares`` (..., D) together as ``variance`` asks: (..., D) for
        ``per_dim``, else (..., 1)."""
        if self.variance == "per_dim":
            return squares
        if self.variance == "mean":
            return squares.mean(-1, keepdim=True)
        return squares.sum(-1, keepdim=True)

    def gated(self, v: Tensor, used: Tensor) -> tuple[Tensor, Diagnostics]:
        """Gates reduced variances ``v`` (..., D or 1) and averages over the last axis; the share
        of active gates and the quantiles are taken where ``used`` (...)."""
        with torch.no_grad():
            active = (v > self.tau).to(v.dtype).mean(-1)
            diagnostics = {"active_gates": active.where(used, 0).sum() / used.sum().clamp_min(1)}
            levels = (v / self.tau).where(used[..., None], torch.nan).flatten()
            levels = levels[:: 1 + levels.numel() // WATCHED]
            at = torch.stack([levels.new_full((), q) for q in QUANTILES])  # made on the device
            quantiles = levels.nanquantile(at).nan_to_num(0)
            for q, level in zip(QUANTILES, quantiles, strict=True):
                diagnostics[f"variance_q{100 * q:.0f}"] = level
        return self.gate(v).mean(-1), diagnostics
