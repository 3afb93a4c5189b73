"""Adversarial representation learning."""

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from smashbench.defenses.adversary import Adversarial, mean_image_error
from smashbench.defenses.base import Diagnostics, Step


class Arl(Adversarial):
    """Adversarial representation learning (Feutry et al., arXiv:1802.09386; Roy and Boddeti, CVPR
    2019; the row "adversarial" of Xia et al., CVPR 2025).

    The adversary D lowers MSE(D(z~), x), the victim raises it. Penalty = weight * max(0, 1 -
    MSE(D(z~), x) / V), V the error of the mean image of the batch: the gradient is that of
    -weight MSE / V up to there, and nothing is gained beyond. (Deviations: the hinge, without which
    the objective has no lower bound, and the unit V, which makes the weight the same for every data
    set. Published code keeps the checkpoint with the best test error of the adversary; nothing is
    chosen here.) Released is z itself.

    Args:
        adversary: the options of ``Adversarial``.
    """

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        own = self.learn(step)
        error = mse_loss(self.guess(step.released), step.images.detach().float())
        left = torch.relu(1 - error / mean_image_error(step.images))
        return self.weight * left, {"adversary_mse": own}
