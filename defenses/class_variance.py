"""CEM without clusters and without attention: the plain variance within each class."""

from torch import Tensor

from smashbench.defenses.base import Diagnostics
from smashbench.defenses.gates import Gated
from smashbench.defenses.groups import Groups


class ClassVariance(Gated):
    """The variance of the features around the mean of their class in the batch.

    R_c = mean_d gate(v_cd), v_cd = mean over the batch members of class c of (z_d - mu_cd)^2, with
    the gates of ``Gated``: ``linear`` lowers the within-class mean-square radius (R_c^2 of
    arXiv:2506.15412, over D), ``capacity`` the bound on I(x; z~ | y). There is no state, and
    nothing that could be trained to fake the loss. Ours; the studies found that it compresses
    where learned attention does not. Classes with one sample in the batch are skipped.

    Args:
        options: those of ``Gated``.
    """

    def class_losses(self, z: Tensor, y: Tensor, groups: Groups) -> tuple[Tensor, Diagnostics]:
        deviations = z - groups.mean(z).index_select(0, groups.index)
        several = groups.count > 1
        losses, diagnostics = self.gated(self.reduce(groups.mean(deviations.square())), several)
        return losses.where(several, 0), diagnostics
