"""The defenses: one per file, listed in ``DEFENSES``."""

from smashbench.defenses.arl import Arl
from smashbench.defenses.base import Defense
from smashbench.defenses.bottleneck import Bottleneck
from smashbench.defenses.channel_dropout import ChannelDropout
from smashbench.defenses.class_variance import ClassVariance
from smashbench.defenses.disco import Disco
from smashbench.defenses.dropout import Dropout
from smashbench.defenses.full_gmm_cem import FullGmmCem
from smashbench.defenses.gated_pooling import GatedPooling
from smashbench.defenses.gmm_cem import GmmCem
from smashbench.defenses.hsic import Hsic
from smashbench.defenses.jacobian import Jacobian
from smashbench.defenses.kmeans_cem import KMeansCem
from smashbench.defenses.label_smoothing import LabelSmoothing
from smashbench.defenses.laplace import Laplace
from smashbench.defenses.local_dp import LocalDp
from smashbench.defenses.matched_noise import MatchedNoise
from smashbench.defenses.noise import Noise
from smashbench.defenses.none import NoDefense
from smashbench.defenses.nopeek import NoPeek
from smashbench.defenses.projection import Projection
from smashbench.defenses.quantise import Quantise
from smashbench.defenses.random_projection import RandomProjection
from smashbench.defenses.ressfl import ResSfl
from smashbench.defenses.shredder import Shredder
from smashbench.defenses.siamese import Siamese
from smashbench.defenses.slot_attention import SlotAttention
from smashbench.defenses.topk import TopK
from smashbench.defenses.vclub import VClub
from smashbench.defenses.vib import Vib

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
    "channel_dropout": ChannelDropout,
    "topk": TopK,
    "quantise": Quantise,
    "bottleneck": Bottleneck,
    "projection": Projection,
    "nopeek": NoPeek,
    "hsic": Hsic,
    "jacobian": Jacobian,
    "siamese": Siamese,
    "label_smoothing": LabelSmoothing,
    "vib": Vib,
    "arl": Arl,
    "ressfl": ResSfl,
    "vclub": VClub,
    "disco": Disco,
    "laplace": Laplace,
    "local_dp": LocalDp,
    "matched_noise": MatchedNoise,
    "shredder": Shredder,
    "random_projection": RandomProjection,
}

__all__ = ["DEFENSES", "Defense"]
