"""Penalties with parameters of their own, which can lower them without the features."""

from typing import Any, Literal

from torch import Tensor, nn
from torch.func import functional_call

from smashbench.defenses.cem import Cem, Positive

Attention = Literal["joint", "detached", "uniform", "adversarial"]


class OwnParameters(Cem):
    """A penalty that trains parameters of its own, in the victim's optimiser.

    Args:
        pace: learning rate of these parameters, as a multiple of the victim's. Below 1 it slows
            them, as the source asks for. (Clipping their gradient, its other proposal, does nothing
            under Adam, whose steps do not depend on the gradient's scale.)
        cem: the options of ``Cem``.
    """

    attention: Attention

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, pace: Positive = 1.0, **cem: Any
    ) -> None:
        super().__init__(shape, classes, **cem)
        self.pace = pace

    def stand_on(self, noise: float) -> None:
        super().stand_on(noise)
        if self.attention in ("detached", "uniform") and self.pace != 1:
            raise ValueError(
                f"pace = {self.pace:g} does nothing with attention = {self.attention!r}, which is "
                "not trained: delete it"
            )

    def learned(self, module: nn.Module, *inputs: Any) -> Any:
        """What ``module`` makes of inputs, with parameters that the penalty trains as ``attention``
        says: ``joint`` to lower it, ``adversarial`` to raise it, ``detached`` not at all. Values
        are the same in all three, to the last bit; gradients reach the inputs in all three."""
        if self.attention == "joint":
            return module(*inputs)
        parameters = dict(module.named_parameters())
        turned = {name: _turned(each, self.attention) for name, each in parameters.items()}
        return functional_call(module, turned, inputs)


def _turned(parameter: Tensor, attention: Attention) -> Tensor:
    fixed = parameter.detach()
    return 2 * fixed - parameter if attention == "adversarial" else fixed
