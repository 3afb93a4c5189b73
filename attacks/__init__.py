"""The attacks: one per file, listed in ``ATTACKS``."""

from smashbench.attacks.averaging import Averaging
from smashbench.attacks.base import Attack, Knowledge
from smashbench.attacks.class_mean import ClassMean
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.gmm import Gmm
from smashbench.attacks.knn import Knn
from smashbench.attacks.map import Map
from smashbench.attacks.mean import Mean
from smashbench.attacks.query_decoder import QueryDecoder
from smashbench.attacks.reference_decoder import ReferenceDecoder
from smashbench.attacks.ridge import Ridge

ATTACKS: dict[str, type[Attack]] = {
    "mean": Mean,
    "class_mean": ClassMean,
    "ridge": Ridge,
    "gmm": Gmm,
    "knn": Knn,
    "decoder": Decoder,
    "query_decoder": QueryDecoder,
    "reference_decoder": ReferenceDecoder,
    "averaging": Averaging,
    "map": Map,
}

__all__ = ["ATTACKS", "Attack", "Knowledge"]
