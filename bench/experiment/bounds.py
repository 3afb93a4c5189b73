"""What no attack can beat: the exact optimum where the world is known, and a lower bound."""

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from smashbench.attacks.base import require_memory
from smashbench.bench.experiment.integrals import integrated_mean
from smashbench.bench.experiment.results import Bound
from smashbench.bench.experiment.victim import Victim
from smashbench.datasets import Prior, Split

ROWS = 1024
"""Features whose derivatives are computed at once."""
IMAGES = 4
"""Test images whose Jacobians enter the bound, spread evenly over the test set."""


def van_trees(jacobian: Tensor, noise: float, covariance: Tensor) -> float:
    """Lower bound on the mean squared error per pixel of any estimate of x from f(x) + N(0, s^2)
    (van Trees, 1968; Gill and Levit, 1995): tr((E[J^T J] / s^2 + I_prior)^-1) / P.

    The prior is x | u ~ N(., C) for side information u that the attacker may have, so that
    I_prior = C^-1; C may be singular. Exact, and equal to the least possible error, when f is
    linear and x | u Gaussian.

    Args:
        jacobian: J (D, P) of f.
        noise: s > 0.
        covariance: C (P, P), or (c, c) for one that is the same, and independent, at each of the
            P / c places of an image of c channels, channels first.
    """
    jacobian = jacobian.double()
    d, p = jacobian.shape
    c = covariance.double()
    if len(c) < p:
        seen = torch.einsum("ab,dbp->dap", c, jacobian.view(d, len(c), -1)).reshape(d, p)
        prior = c.trace() * (p // len(c))
    else:
        seen, prior = jacobian @ c, c.trace()
    noisy = seen @ jacobian.T + noise**2 * torch.eye(d, dtype=c.dtype, device=c.device)
    explained = torch.linalg.solve(noisy, seen @ seen.T).trace()
    return float((prior - explained) / p)


def lower_bound(victim: Victim, split: Split) -> Bound | None:
    """The bound for a victim whose releases are a smooth transform of features and Gaussian noise;
    None for others, and for one whose training diverged.

    Raises:
        OversizedError: the Jacobian does not fit in memory.

    Assumptions. Where the prior is known (``split.prior``), u is the component of the mixture.
    For photographs u is everything but pixel noise: an image is some content, which the attacker
    may know perfectly, and Gaussian noise of at least the level that its finest diagonal detail
    shows. That certifies far less than attacks leave, and with few features per pixel it is hardly
    more than that noise, whatever the defense adds. Fine texture counts as noise. J is taken at
    the image itself, to first order in the pixel noise. Jacobians are dear: the share of the prior
    that is left comes from a few images, the prior from all.

    A known prior is as wide as the images are: J of a nonlinear encoder changes within it, and a
    mean of bounds at single images is none (for tanh of a scalar it is above the least possible
    error). So there is a bound for affine encoders alone.
    """
    noise, prior, x = victim.defense.noise, split.prior, split.test.x
    if not (noise and _is_known(victim) and victim.encode(x[:1]).isfinite().all()):
        return None
    if prior is not None:
        if (known := _affine(victim, x[:64])) is None:
            return None
        errors = [van_trees(known[0], noise, each.to(x.device)) for each in prior.covariances]
        left = sum(w * error for w, error in zip(prior.weights.tolist(), errors, strict=True))
        return Bound(mse=left, prior=float(prior.weights @ _variance(prior.covariances)))
    covariances = pixel_noise(x)
    total, left, whole = float(_variance(covariances).mean()), 0.0, 0.0
    for index in sample(len(x), IMAGES).tolist():
        left += van_trees(_jacobian(victim, x[index]), noise, covariances[index])
        whole += float(_variance(covariances[index]))
    return Bound(mse=total * left / max(whole, 1e-30), prior=total)


def _affine(victim: Victim, x: Tensor) -> tuple[Tensor, Tensor] | None:
    """J (D, P) and offset (D,), float64, of what noise is added to, J x + offset; None where
    images x show that it is not of this form."""
    jacobian = _jacobian(victim, x[0]).double()
    z = victim.transform(victim.encode(x)).flatten(1).double()
    offset = z[0] - jacobian @ x[0].flatten().double()
    same = torch.allclose(x.flatten(1).double() @ jacobian.T + offset, z, atol=1e-5)
    return (jacobian, offset) if same else None


def _variance(covariance: Tensor) -> Tensor:
    """Variance (...) per dimension of covariances (..., n, n)."""
    return covariance.diagonal(dim1=-2, dim2=-1).mean(-1).double()


def pixel_noise(x: Tensor) -> Tensor:
    """Covariance (N, C, C) between channels of the noise in each image (N, C, H, W): the robust
    scale, median |d| / .6745, of the diagonal Haar detail d along each of its principal
    directions (Donoho and Johnstone, 1994)."""
    n, c, h, w = x.shape
    blocks = x[..., : h // 2 * 2, : w // 2 * 2].double().unfold(2, 2, 2).unfold(3, 2, 2)
    detail = (blocks[..., 0, 0] - blocks[..., 0, 1] - blocks[..., 1, 0] + blocks[..., 1, 1]) / 2
    detail = detail.reshape(n, c, -1)
    directions = torch.linalg.eigh(detail @ detail.mT).eigenvectors
    scales = (directions.mT @ detail).abs().median(-1).values / 0.6745
    return (directions * scales.square()[:, None]) @ directions.mT


def optimum(victim: Victim, split: Split, released: Tensor) -> Tensor | None:
    """E[x | z~] (N, C, H, W), the reconstruction with the least possible expected squared error,
    of releases (N, C', H', W'); None unless the prior is known, the noise is Gaussian, or none, and
    encoder and transform are affine or the images have one or two dimensions."""
    prior = split.prior
    if prior is None or not _is_known(victim):
        return None
    noise, flat = victim.defense.noise, released.flatten(1)
    guess: Tensor | None = None
    if known := _affine(victim, split.test.x[:64]):
        guess = posterior_mean(prior, *known, noise, flat.double())
    elif noise:

        def release(x: Tensor) -> Tensor:
            images = x.to(released).view(-1, *split.shape)
            return victim.transform(victim.encode(images)).flatten(1)

        guess = integrated_mean(prior, release, noise, flat)
    if guess is None:
        return None
    return guess.to(released.dtype).view(-1, *split.shape)


def posterior_mean(
    prior: Prior, jacobian: Tensor, offset: Tensor, noise: float, z: Tensor
) -> Tensor:
    """E[x | z] (N, P) for x from ``prior`` and z = J x + offset + N(0, noise^2) (N, D)."""
    weights, means, covariances = (value.to(z) for value in prior)
    eye = torch.eye(len(jacobian), dtype=z.dtype, device=z.device)
    cross = covariances @ jacobian.T
    normal = MultivariateNormal(
        means @ jacobian.T + offset, jacobian @ cross + max(noise, 1e-6) ** 2 * eye
    )
    r = (normal.log_prob(z[:, None]) + weights.log()).softmax(1)
    guess = torch.zeros(len(z), means.shape[1], dtype=z.dtype, device=z.device)
    for k, mean in enumerate(means):
        gain = torch.linalg.solve(normal.covariance_matrix[k], cross[k].T)
        guess += r[:, k, None] * (mean + (z - normal.mean[k]) @ gain)
    return guess


def _is_known(victim: Victim) -> bool:
    """Whether releases are a transform whose derivative is known, and Gaussian noise."""
    return victim.defense.gaussian and victim.defense.transform_is == "smooth"


def _jacobian(victim: Victim, x: Tensor) -> Tensor:
    """Derivatives (D, P) of what noise is added to, of one image (C, H, W).

    Raises:
        OversizedError: it and what is done with it do not fit in memory.
    """
    victim.eval()
    d, p = victim.encode(x[None]).numel(), x.numel()
    require_memory(
        4 * d * p + 8 * (2 * d * p + 3 * d * d), f"the Jacobian of {d} features of {p} pixels"
    )
    found = []
    for rows in torch.arange(d, device=x.device).split(ROWS):
        copies = x.expand(len(rows), *x.shape).clone().requires_grad_()
        z = victim.encoder(copies.contiguous(memory_format=torch.channels_last))
        z = victim.defense.transform(z).flatten(1)
        (part,) = torch.autograd.grad(z.gather(1, rows[:, None]).sum(), copies)
        found.append(part.flatten(1))
    return torch.cat(found)


def sample(n: int, size: int) -> Tensor:
    """At most ``size`` indices, spread evenly over ``n``."""
    return torch.linspace(0, n - 1, min(size, n)).long()
