"""Dropout of whole channels that stays at inference."""

from torch import Tensor

from smashbench.defenses.dropout import Dropout


class ChannelDropout(Dropout):
    """Every channel is zero with probability ``rate``, drawn anew for every release.

    z~_c = z_c m_c with m_c ~ Bernoulli(1 - rate), in training, at inference and under attack alike,
    and without rescaling: the random pruning that DISCO (Singh et al., CVPR 2021) compares with.
    The channels of tokens (T, D) are their D features, and those of a vector its features. What is
    sent are the channels that are left and a bit for each.

    Args:
        rate: share of the channels that are dropped, on average.
    """

    def _droppable(self, z: Tensor) -> Tensor:
        return z[:, :1] if z.ndim == 3 else z[:, :, :1, :1] if z.ndim == 4 else z
