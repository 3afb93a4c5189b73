"""What this processor is worth: the CPU-seconds that ``vgg11`` takes for 1,000 training images.

``python -m tests.perf_calibration`` prints them, in less than a minute. Processors differ, so
every other cost can be stated in these units. One training step is the forward pass, the backward
pass and the optimiser's step of a batch of 128, in channels-last format on one thread; it is timed
in float32 and in bf16, and the faster one is the unit.

On a Zen 4 core, which multiplies bf16 in hardware, it measured 163 images per CPU-second: a unit
is 6.13 CPU-seconds there, and 1,800 CPU-seconds are 293 units.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import torch

from tests.fitted import victim_of

BATCH = 128
ROUNDS = 3
"""Steps that are timed in each precision, alternating, after one that is not."""


class Calibration(NamedTuple):
    """CPU-seconds per 1,000 training images of ``vgg11``."""

    fp32: float
    bf16: float

    @property
    def unit(self) -> float:
        """Those of the faster precision."""
        return min(self)

    @property
    def text(self) -> str:
        """A paragraph of Markdown."""
        faster = "fp32" if self.fp32 < self.bf16 else "bf16"
        return (
            f"One calibration unit is the CPU time that `vgg11` takes for 1,000 training images on "
            f"one thread: **{self.unit:.2f} CPU-seconds** on this machine, in {faster} (fp32 "
            f"{self.fp32:.2f}, bf16 {self.bf16:.2f}). `python -m tests.perf_calibration` measures "
            f"it. 1,800 CPU-seconds are {1800 / self.unit:.0f} units here; on a Zen 4 core, where "
            "a unit measured 6.13 CPU-seconds, they are 293."
        )


def calibrate() -> Calibration:
    """Measures the unit, on the CPU and the threads that PyTorch is set to."""
    steps = {precision: _step(precision) for precision in Calibration._fields}
    seconds: dict[str, list[float]] = {precision: [] for precision in steps}
    for _ in range(ROUNDS + 1):
        for precision, step in steps.items():
            started = time.process_time()
            step()
            seconds[precision].append((time.process_time() - started) * 1000 / BATCH)
    return Calibration(**{name: median(values[1:]) for name, values in seconds.items()})


def _step(precision: str) -> Callable[[], None]:
    """A training step of an undefended ``vgg11``."""
    victim = victim_of("vgg11", "none", {}, (3, 32, 32), 10)
    victim.to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.AdamW(victim.parameters(), 1e-4, fused=True)
    x = torch.rand(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    y = torch.arange(BATCH) % 10

    def run() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = victim.head(victim.encoder(x))
        loss = torch.nn.functional.cross_entropy(logits.float(), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return run


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(calibrate().text)
