"""Published numbers, to stand beside ours where the protocol is theirs, and nowhere else."""

from typing import NamedTuple

from smashbench.bench.suite.trial import Suite

XIA = "Xia et al., CVPR 2025, arXiv 2503.00383v2, CIFAR-10 table, decoder trained on other images"


class Published(NamedTuple):
    """One published row: accuracy and worst-case error of one decoder, without an interval."""

    name: str
    accuracy: float
    mse: float
    source: str = XIA


CIFAR10 = (
    Published("no defense", 0.9186, 0.0014),
    Published("bottleneck", 0.9087, 0.0041),
    Published("bottleneck + CEM", 0.9069, 0.0058),
    Published("distance correlation", 0.8952, 0.0082),
    Published("distance correlation + CEM", 0.8980, 0.0093),
    Published("dropout", 0.8775, 0.0104),
    Published("dropout + CEM", 0.8753, 0.0134),
    Published("PATROL", 0.8958, 0.0293),
    Published("PATROL + CEM", 0.8967, 0.0335),
    Published("ResSFL", 0.8968, 0.0240),
    Published("ResSFL + CEM", 0.9011, 0.0251),
    Published("noise + NoPeek", 0.8719, 0.0159),
    Published("noise + NoPeek + CEM", 0.8708, 0.0174),
    Published("noise + ARL", 0.8778, 0.0336),
    Published("noise + ARL + CEM", 0.8762, 0.0355),
)


REFERENCE = {"cut": 4, "channels": 8, "decoding": "plain", "initial": "xavier"}
"""Options of ``vgg11`` that make it theirs."""


def published_points(suite: Suite, metric: str) -> list[tuple[Published, float]]:
    """What to draw beside a suite: rows with their value of ``metric``. Empty unless data set,
    split and model are theirs, and the metric is: MSE, not an SSIM of another convention. The
    model's options have to be theirs in some row: defenses decide them in others."""
    if metric != "mse":
        return []
    victims = [trial.victim for trial in suite.victims]
    same = all(
        (victim.dataset.name, victim.dataset.options.get("split"), victim.model.name)
        == ("cifar10", "xia2025", "vgg11")
        for victim in victims
    ) and any(victim.model.options == REFERENCE for victim in victims)
    return [(row, row.mse) for row in CIFAR10] if same else []
