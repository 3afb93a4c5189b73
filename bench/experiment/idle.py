"""Defenses that would do nothing on the images that they are trained on, under their own names."""

from collections.abc import Iterator

from smashbench.bench.experiment.training import Training
from smashbench.datasets import Split
from smashbench.defenses import Defense
from smashbench.defenses.cem import Refitted
from smashbench.defenses.slot_attention import SlotAttention


def idle(defense: Defense, split: Split, training: Training) -> Iterator[str]:
    """A line for every penalty, of ``defense`` or in its stack, that has nothing to penalise in a
    whole training: what a suite cannot know without the images."""
    largest = int(split.train.y.bincount().max())
    hint = f"give at most {largest // 2}" if largest > 1 else "take another defense"
    size = min(training.batch_size, len(split.train.y))
    for part in defense.modules():
        if isinstance(part, Refitted):
            for name in ("clusters", "components"):
                if (number := getattr(part, name, 0)) >= largest:
                    yield (
                        f"{name} = {number}: no class has more than {largest} training images, so "
                        "that every image would be its own centre, and no variance within a class "
                        f"be penalised; {hint}"
                    )
        elif isinstance(part, SlotAttention):
            steps = (training.epochs - part.warmup_epochs) * (len(split.train.y) // size)
            if part.shutoff_steps >= steps:
                yield (
                    f"shutoff_steps = {part.shutoff_steps}: {steps} steps come after the warm-up, "
                    "so that nothing would be penalised; set a lower one, or a higher "
                    "training.epochs"
                )
