"""Split networks: one family per file, listed in ``MODELS``."""

from smashbench.bench.experiment.models.airbench import Airbench
from smashbench.bench.experiment.models.airbench_large import AirbenchLarge
from smashbench.bench.experiment.models.base import Model, SplitModel
from smashbench.bench.experiment.models.bent import Bent
from smashbench.bench.experiment.models.linear import Linear
from smashbench.bench.experiment.models.resnet import ResNet18, ResNet20
from smashbench.bench.experiment.models.small import Small
from smashbench.bench.experiment.models.vgg11 import Vgg11

MODELS: dict[str, type[Model]] = {
    "linear": Linear,
    "bent": Bent,
    "small": Small,
    "vgg11": Vgg11,
    "resnet18": ResNet18,
    "resnet20": ResNet20,
    "airbench": Airbench,
    "airbench_large": AirbenchLarge,
}

__all__ = ["MODELS", "Model", "SplitModel"]
