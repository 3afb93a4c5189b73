"""What every metric may take for granted, checked once."""

from torch import Tensor


def check(x: Tensor, guess: Tensor) -> None:
    """Refuses what is no pair of image batches.

    Raises:
        ValueError: shapes differ or are not (N, C, H, W), or pixels lie outside [0, 1].
    """
    if x.shape != guess.shape or x.ndim != 4:
        raise ValueError(f"expected two (N, C, H, W) batches, got {x.shape} and {guess.shape}")
    for name, images in (("original", x), ("reconstruction", guess)):
        low, high = images.min(), images.max()
        if not (low >= 0 and high <= 1):  # NaN fails too
            raise ValueError(f"{name} pixels span [{low:.3g}, {high:.3g}]; clamp them to [0, 1]")
