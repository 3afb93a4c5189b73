"""The defenses: one per file, listed in ``DEFENSES``."""

from smashbench.defenses.base import Defense
from smashbench.defenses.class_variance import ClassVariance
from smashbench.defenses.dropout import Dropout
from smashbench.defenses.full_gmm_cem import FullGmmCem
from smashbench.defenses.gated_pooling import GatedPooling
from smashbench.defenses.gmm_cem import GmmCem
from smashbench.defenses.kmeans_cem import KMeansCem
from smashbench.defenses.noise import Noise
from smashbench.defenses.none import NoDefense
from smashbench.defenses.nopeek import NoPeek
from smashbench.defenses.slot_attention import SlotAttention

DEFENSES: dict[str, type[Defense]] = {
    "none": NoDefense,
    "noise": Noise,
    "class_variance": ClassVariance,
    "kmeans_cem": KMeansCem,
    "gmm_cem": GmmCem,
    "full_gmm_cem": FullGmmCem,
    "gated_pooling": GatedPooling,
    "slot_attention": SlotAttention,
    "dropout": Dropout,
    "nopeek": NoPeek,
}

__all__ = ["DEFENSES", "Defense"]
