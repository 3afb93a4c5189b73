"""CEM with gated attention pooling."""

from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from smashbench.defenses.base import Diagnostic, Diagnostics
from smashbench.defenses.cem import Count, NonNegative
from smashbench.defenses.gates import Gated
from smashbench.defenses.groups import Groups
from smashbench.defenses.own_parameters import Attention, OwnParameters


class GatedPooling(OwnParameters, Gated):
    """GatedAttentionCEM: the within-class variance is weighted by gated attention.

    Per class, on x_m = LayerNorm(z_m) without affine parameters (a learned scale could shrink to
    0 and fake the result): l_m = w^T [tanh(V x_m) * sigmoid(U x_m)] (Ilse et al., ICML 2018,
    eq. 9), a = softmax(l) over the class, v = sum_m a_m (x_m - sum_m a_m x_m)^2, R_c = mean_d
    gate(v_d). Classes with one sample in the batch are skipped.

    With normalized features, the source's, the penalty does not depend on their scale, and the
    noise does: features that grow outgrow the noise at no price. Tau is then compared with
    variances of normalised features, and the capacity gate is in nats with ``raw`` ones alone.

    Known trap: attention alone can drive this loss to 0 by looking at one sample of each class
    while the features keep their variance. ``effective_samples`` beside the true variance shows it.

    Args:
        features: take the variance on ``normalized`` or on ``raw`` features; the attention sees
            normalized ones in both.
        attention: ``joint`` trains the attention to lower the penalty, as the source does;
            ``adversarial`` trains it to raise the penalty; ``detached`` keeps it as it was drawn
            and passes no gradient through it; ``uniform`` weighs all samples alike.
        width: hidden units of the attention; None for min(512, max(64, D / 4)), the source's. A
            narrow attention fools itself less (docs/ablations.md).
        warmup_epochs: as in ``Cem``, but 5 unless told.
        scale: as in ``Cem``, but 0.1 unless told.
        options: the other ones of ``OwnParameters`` and ``Gated``.
    """

    diagnostics = Gated.diagnostics | {
        "effective_samples": Diagnostic("effective samples per class", column=True),
        "samples_per_class": Diagnostic("samples per class in a batch"),
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        features: Literal["normalized", "raw"] = "normalized",
        attention: Attention = "joint",
        width: Annotated[int, Ge(1)] | None = None,
        warmup_epochs: Count = 5,
        scale: NonNegative = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(shape, classes, warmup_epochs=warmup_epochs, scale=scale, **options)
        if attention == "uniform" and width is not None:
            raise ValueError('width does nothing with attention = "uniform": delete it')
        self.features, self.attention = features, attention
        dimensions = torch.Size(shape).numel()
        self.logits = _Logits(dimensions, width or min(512, max(64, dimensions // 4)))

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        x = layer_norm(z, z.shape[1:])
        if self.attention == "uniform":
            a = (1 / groups.count)[groups.index]
        else:
            a = groups.softmax(self.learned(self.logits, x))
            if self.attention == "detached":
                a = a.detach()
        values = x if self.features == "normalized" else z
        weights = groups.member * a
        mean = weights @ values
        variance = weights @ (values - mean.index_select(0, groups.index)).square()
        several = groups.count > 1
        losses, diagnostics = self.gated(self.reduce(variance), several)
        with torch.no_grad():
            n = several.sum().clamp_min(1)
            effective = (1 / weights.square().sum(1).clamp_min(1e-12)).where(several, 0).sum() / n
            samples = groups.count.where(several, 0).sum() / n
        diagnostics |= {"effective_samples": effective, "samples_per_class": samples}
        return losses.where(several, 0), diagnostics


class _Logits(nn.Module):
    """w^T [tanh(V x) * sigmoid(U x)] (B,) of x (B, D)."""

    def __init__(self, dimensions: int, width: int) -> None:
        super().__init__()
        self.vu = nn.Linear(dimensions, 2 * width, bias=False)  # V and U, one product
        self.w = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        v, u = self.vu(x).chunk(2, dim=1)
        logits: Tensor = self.w(v.tanh() * u.sigmoid()).squeeze(1)
        return logits
