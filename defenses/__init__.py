"""The defenses: one per file, listed in ``DEFENSES``."""

from defenses.base import Defense
from defenses.gated_pooling import GatedPooling
from defenses.gmm_cem import GmmCem
from defenses.kmeans_cem import KMeansCem
from defenses.noise import Noise
from defenses.slot_attention import SlotAttention

DEFENSES: dict[str, type[Defense]] = {
    "none": Defense,
    "noise": Noise,
    "kmeans_cem": KMeansCem,
    "gmm_cem": GmmCem,
    "gated_pooling": GatedPooling,
    "slot_attention": SlotAttention,
}

__all__ = ["DEFENSES", "Defense"]
