"""How long an audit may take and how much memory: what fits is done, and the rest is said."""

import sys
import time
from math import inf, prod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from smashbench.attacks.network import UNFOLDED, Network
from smashbench.attacks.ridge import WIDE

PROCESSES = 1.3e9
"""Bytes that the processes of an audit take before they hold any data."""
MOST_TEST = 1000
"""Most images that are scored, and told apart by re-identification."""
COPIES_OF_IMAGES, COPIES_OF_FEATURES = 6, 7
"""Of the attacker's pairs, held at once by the audit, the wall and the attack together: by a
decoder, which holds most."""
COPIES_SCORED = 5
"""Of the images that are scored, and of their features."""


class Clock:
    """Tells how far an audit is.

    Args:
        minutes: that it may take.
        shown: whether it says so, on the standard error.
    """

    def __init__(self, minutes: float, *, shown: bool) -> None:
        self.seconds, self.shown = 60 * minutes, shown
        self._begun = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        """Seconds; 0 when the time is up."""
        return max(0.0, self.seconds - self.spent)

    def say(self, what: str) -> None:
        """What is done next."""
        if self.shown:
            spent, left = (f"{int(s) // 60}:{int(s) % 60:02d}" for s in (self.spent, self.left))
            print(f"[{spent}, {left} left] {what}", file=sys.stderr, flush=True)


def room(image: tuple[int, ...], features: tuple[int, ...], gigabytes: float) -> tuple[int, int]:
    """How many images of a shape with features of a shape an audit may hold at once: of the
    attacker, and of those that are scored; none where the memory does not hold the processes
    themselves."""
    free = max(0.0, gigabytes * 2**30 - PROCESSES - 2 * UNFOLDED)
    p, d = 4 * prod(image), 4 * prod(features)
    test = min(MOST_TEST, int(0.25 * free / (COPIES_SCORED * (p + d))))
    rest = free - test * COPIES_SCORED * (p + d)
    return int(rest / (COPIES_OF_IMAGES * p + COPIES_OF_FEATURES * d)), test


def ridge_bytes(pairs: int, features: int, pixels: int) -> float:
    """What ``Ridge`` takes for so many pairs beside the pairs, in the form that it chooses."""
    size = min(pairs, features) if features > WIDE else features
    return 8.0 * (3 * size * size + 3 * size * pixels)


class Fit(NamedTuple):
    """How a decoder is trained within a time.

    Args:
        steps: of all cycles, those of the network that does not go on, too.
        batch: images of a step.
    """

    steps: int
    batch: int


LEAST_STEPS = 80
"""Of a decoder that is worth the name: cycles of 10, for both of its networks, 20 and 40."""
ENOUGH_STEPS, MOST_STEPS = 400, 20_000
"""Steps from which on larger batches are worth more, and the most of any decoder."""
BATCHES = (64, 32, 16, 8)
PASSES = 400
"""Most times that a decoder sees an image: with few images it has long stopped improving."""
PROBED = 256
"""Pairs that a decoder's pace is measured on."""


class Pace(NamedTuple):
    """How fast a decoder trains here.

    Args:
        prepare: seconds for a pair to prepare the closed form that it starts from.
        step: seconds for an image of a training step.
        fixed: seconds that any fit takes.
    """

    prepare: float
    step: float
    fixed: float

    def least(self, pairs: int) -> float:
        """Seconds of the shortest fit to so many pairs."""
        return self.fixed + self.prepare * pairs + LEAST_STEPS * min(BATCHES) * self.step

    def within(self, seconds: float, pairs: int) -> Fit | None:
        """The longest fit to so many pairs within a time; None where that is too short."""
        free = seconds - self.fixed - self.prepare * pairs
        if self.step == inf:
            return None
        free = min(free, PASSES * pairs * self.step)
        affordable = {batch: int(free / (batch * self.step)) for batch in BATCHES}
        fitting = [batch for batch, steps in affordable.items() if steps >= ENOUGH_STEPS]
        batch = max(fitting, default=min(BATCHES))
        steps = min(MOST_STEPS, affordable[batch])
        if steps < LEAST_STEPS:
            return None
        return Fit(steps, batch)


NEVER = Pace(0.0, inf, 0.0)
"""Of a decoder that does not fit in memory."""


def pace_of(z: Tensor, x: Tensor, width: int) -> Pace:
    """Measures it on releases z (n, ...) of images x (n, C, H, W).

    Raises:
        OversizedError: a decoder of such features does not fit in memory.
    """
    z, x, prepared = z[:PROBED], x[:PROBED], []
    for size in (len(z) // 4, len(z)):
        started = time.perf_counter()
        pairs = z[:size], x[:size]
        net = Network(pairs, pairs, width, 3, 0.0)
        prepared.append(time.perf_counter() - started)
    net = net.to(x.device).to(memory_format=torch.channels_last)
    prepare = max(0.0, prepared[1] - prepared[0]) / (len(z) - len(z) // 4)
    batch, times = min(16, len(z)), []
    for _ in range(3):
        started = time.perf_counter()
        loss = mse_loss(net(z[:batch]), x[:batch])
        loss.backward()
        float(loss.detach())  # waits for the device
        times.append(time.perf_counter() - started)
    # beside the network's passes a step has an optimiser and the way through the wall
    return Pace(prepare, 1.5 * min(times[1:]) / batch, 1.0 + min(prepared))
