"""ResSFL: features from which an adversary rebuilds nothing that looks alike."""

from typing import Annotated, Any

import torch
from annotated_types import Ge, Le
from torch import Tensor
from torch.nn.functional import avg_pool2d, mse_loss

from smashbench.defenses.adversary import Adversarial
from smashbench.defenses.base import Diagnostic, Diagnostics, Step

WINDOW = 7


class ResSfl(Adversarial):
    """ResSFL (Li et al., CVPR 2022): a penalty on the structural similarity of what an adversary
    rebuilds.

    Penalty = weight * max(0, SSIM(D(z~), x) - threshold), D trained on 1 - SSIM by Adam with
    learning rate 1e-3, one step a batch, on the same release in the same mode. (In the published
    code D learns from evaluation-mode features and is used on training-mode ones.) Deviations:
    windows of 7x7 with equal weights instead of Gaussian 11x11; D is not trained before the victim
    is; one training on the task itself, without the paper's transfer from an expert trained
    elsewhere. Released is z itself.

    Args:
        weight: of the penalty (alpha).
        threshold: similarity that costs nothing (tau).
        adversary: the options of ``Adversarial``.
    """

    diagnostics = Adversarial.diagnostics | {
        "adversary_ssim": Diagnostic("SSIM of the defender's own adversary")
    }

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        weight: Annotated[float, Ge(0)] = 0.3,
        threshold: Annotated[float, Ge(0), Le(1)] = 0.5,
        **adversary: Any,
    ) -> None:
        super().__init__(shape, classes, weight=weight, **adversary)
        self.threshold = threshold

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        self.learn(step, lambda guess, x: 1 - similarity(guess, x))
        guess, images = self.guess(step.released), step.images.detach().float()
        alike = similarity(guess, images)
        own = mse_loss(guess.detach(), images)
        watched = {"adversary_mse": own, "adversary_ssim": alike.detach()}
        return self.weight * torch.relu(alike - self.threshold), watched


def similarity(guess: Tensor, x: Tensor) -> Tensor:
    """Mean structural similarity of images (B, C, H, W) in [0, 1] (Wang et al., 2004), that of
    scikit-image with win_size=7, gaussian_weights=False, use_sample_covariance=False."""
    size = min(WINDOW, *x.shape[2:])

    def mean(image: Tensor) -> Tensor:
        return avg_pool2d(image, size, 1)

    mx, my = mean(x), mean(guess)
    vx, vy = mean(x * x) - mx * mx, mean(guess * guess) - my * my
    both = mean(x * guess) - mx * my
    c1, c2 = 0.01**2, 0.03**2
    found = (2 * mx * my + c1) * (2 * both + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2))
    return found.mean()
