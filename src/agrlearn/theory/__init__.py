"""The paper's theory on finite alphabets: IB learning, IB quantization, and when groups beat single objects.

It needs numpy and scipy only, not torch. Every function that returns information takes `unit="bits"` (the default) or
`unit="nats"`, and every result names its unit.
"""

from agrlearn.theory.binary import (
    BinaryCode,
    binary_limit,
    convolutional_code,
    flip_distortion,
    perfect_code,
    random_codebook,
    typicality_failure,
)
from agrlearn.theory.codes import IBCode, product_code, with_decoder, words
from agrlearn.theory.curve import (
    CurvePoint,
    bottleneck_curve,
    distortion_ibq,
    point_at,
    rate_ibl,
    rate_ibq,
    relevance_ibl,
)
from agrlearn.theory.design import (
    OperationalCurve,
    design_code,
    operational_curve,
    scalar_codes,
    small_alphabet_decoder,
    time_sharing_distortion,
)
from agrlearn.theory.distributions import bottleneck_joint, conditional_law, joint_table
from agrlearn.theory.learning import Bottleneck, bottleneck, certificate_gap, critical_beta, onset_beta
from agrlearn.theory.measures import (
    binary_entropy,
    encoder_information,
    entropy,
    ib_distortion,
    kl_divergence,
    mean_ib_distortion,
    mutual_information,
)
from agrlearn.theory.statements import (
    GroupLoss,
    Sides,
    best_group_loss,
    distortion_is_lost_information,
    group_rate,
    learning_is_quantization,
    rate_between_its_ends,
    rate_is_convex,
    variational_bound,
)
from agrlearn.theory.table_sources import SOURCES, binary_symmetric, four_letters, read_table, three_letters

__all__ = [
    "SOURCES", "BinaryCode", "Bottleneck", "CurvePoint", "GroupLoss", "IBCode", "OperationalCurve", "Sides",
    "best_group_loss", "binary_entropy", "binary_limit", "binary_symmetric", "bottleneck", "bottleneck_curve",
    "bottleneck_joint", "certificate_gap", "conditional_law", "convolutional_code", "critical_beta", "design_code",
    "distortion_ibq", "distortion_is_lost_information", "encoder_information", "entropy", "flip_distortion",
    "four_letters", "group_rate", "ib_distortion", "joint_table", "kl_divergence", "learning_is_quantization",
    "mean_ib_distortion", "mutual_information", "onset_beta", "operational_curve", "perfect_code", "point_at",
    "product_code", "random_codebook", "rate_between_its_ends", "rate_ibl", "rate_ibq", "rate_is_convex", "read_table",
    "relevance_ibl", "scalar_codes", "small_alphabet_decoder", "three_letters", "time_sharing_distortion",
    "typicality_failure", "variational_bound", "with_decoder", "words",
]  # fmt: skip
