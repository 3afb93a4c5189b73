"""The attacks: one per file, listed in ``ATTACKS``."""

from attacks.averaging import Averaging
from attacks.base import Attack, Knowledge
from attacks.class_mean import ClassMean
from attacks.decoder import Decoder
from attacks.gmm import Gmm
from attacks.knn import Knn
from attacks.map import Map
from attacks.mean import Mean
from attacks.query_decoder import QueryDecoder
from attacks.reference_decoder import ReferenceDecoder
from attacks.ridge import Ridge

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
