"""The attacks: one per file, listed in ``ATTACKS``."""

from attacks.base import Attack, Knowledge
from attacks.class_mean import ClassMean
from attacks.decoder import Decoder
from attacks.gmm import Gmm
from attacks.mean import Mean
from attacks.ridge import Ridge

ATTACKS: dict[str, type[Attack]] = {
    "mean": Mean,
    "class_mean": ClassMean,
    "ridge": Ridge,
    "gmm": Gmm,
    "decoder": Decoder,
}

__all__ = ["ATTACKS", "Attack", "Knowledge"]
