"""An upper bound of the mutual information of images and releases, by a network of its own."""

import torch
from torch import Tensor

from smashbench.defenses.adversary import Adversarial, mean_image_error
from smashbench.defenses.base import Diagnostic, Diagnostics, Step


class VClub(Adversarial):
    """InfoScissors (Duan et al., NeurIPS 2024, arXiv:2306.07973): a penalty on vCLUB (Cheng et al.,
    ICML 2020), a variational upper bound of I(x; z~).

    With q(x | z~) Gaussian around what a network G makes of z~, trained by maximum likelihood,
    which is the squared error, CLUB = E |x' - G(z~)|^2 - E |x - G(z~)|^2 up to a factor, x' an
    image that does not belong to z~. Penalty = weight * max(0, CLUB) / 2V, V the mean squared error
    of the mean image of the batch, so that it is 1 for an adversary that is always right.
    Deviations: the expectation over x' is taken over all pairs of the batch, as in the definition
    of Cheng et al., instead of one permutation, and the estimate is clamped at 0, where as
    published it falls without a bound as soon as G is worse than a guess. Released is z itself.

    Args:
        adversary: the options of ``Adversarial``.
    """

    diagnostics = Adversarial.diagnostics | {
        "club": Diagnostic("CLUB, share of an adversary that is always right")
    }

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        own = self.learn(step)
        images = step.images.detach().float()
        bound = club(self.guess(step.released), images) / (2 * mean_image_error(images))
        watched = {"adversary_mse": own, "club": bound.detach()}
        return self.weight * torch.relu(bound), watched


def club(guess: Tensor, x: Tensor) -> Tensor:
    """Mean over all pairs i, j of (x_j - guess_i)^2, minus that of the pairs i, i; per pixel, of
    images (B, C, H, W)."""
    x = x.flatten(1)
    guess = guess.flatten(1)
    centre = x.mean(0)
    apart = (guess - centre).square().mean() + (x - centre).square().mean()
    return apart - (guess - x).square().mean()
