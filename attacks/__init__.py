"""The attacks: one per file, listed in ``ATTACKS``."""

from smashbench.attacks.averaging import Averaging
from smashbench.attacks.base import Attack, Knowledge
from smashbench.attacks.class_mean import ClassMean
from smashbench.attacks.decoder import Decoder
from smashbench.attacks.flow import Flow
from smashbench.attacks.gmm import Gmm
from smashbench.attacks.knn import Knn
from smashbench.attacks.map import Map
from smashbench.attacks.mask_decoder import MaskDecoder
from smashbench.attacks.mean import Mean
from smashbench.attacks.plug_and_play import PlugAndPlay
from smashbench.attacks.quantile_decoder import QuantileDecoder
from smashbench.attacks.query_decoder import QueryDecoder
from smashbench.attacks.reference_decoder import ReferenceDecoder
from smashbench.attacks.ridge import Ridge
from smashbench.attacks.set_decoder import SetDecoder
from smashbench.attacks.shadow import Shadow
from smashbench.attacks.stolen_query_decoder import StolenQueryDecoder
from smashbench.attacks.unrolled import Unrolled
from smashbench.attacks.unsplit import UnSplit

ATTACKS: dict[str, type[Attack]] = {
    "mean": Mean,
    "class_mean": ClassMean,
    "ridge": Ridge,
    "gmm": Gmm,
    "knn": Knn,
    "decoder": Decoder,
    "query_decoder": QueryDecoder,
    "stolen_query_decoder": StolenQueryDecoder,
    "reference_decoder": ReferenceDecoder,
    "mask_decoder": MaskDecoder,
    "quantile_decoder": QuantileDecoder,
    "averaging": Averaging,
    "set_decoder": SetDecoder,
    "flow": Flow,
    "map": Map,
    "plug_and_play": PlugAndPlay,
    "unrolled": Unrolled,
    "shadow": Shadow,
    "unsplit": UnSplit,
}

__all__ = ["ATTACKS", "Attack", "Knowledge"]
