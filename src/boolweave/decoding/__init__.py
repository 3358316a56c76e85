"""Decoding with one factor known: group testing and parity-check codes.

The known factor is sparse, and messages run along its non-zeros only. `group_testing` finds the
positive items from tests on pools; `ParityCheckCode` encodes and decodes; `infer_factor` is the
general case, Z = X • Y with X known.
"""

from boolweave.decoding.alist import read_alist, write_alist
from boolweave.decoding.channels import awgn_llr, bec_llr, bsc_llr, ebn0_to_sigma
from boolweave.decoding.factor import FactorResult, infer_factor
from boolweave.decoding.group_testing import GroupTestingResult, group_testing
from boolweave.decoding.parity_check import DecodingResult, ParityCheckCode
from boolweave.decoding.pool_rules import comp, definite_defectives, scomp
from boolweave.decoding.pools import design_pools, pools_to_matrix
from boolweave.decoding.simulation import SimulationResult, simulate

__all__ = [
    "DecodingResult",
    "FactorResult",
    "GroupTestingResult",
    "ParityCheckCode",
    "SimulationResult",
    "awgn_llr",
    "bec_llr",
    "bsc_llr",
    "comp",
    "definite_defectives",
    "design_pools",
    "ebn0_to_sigma",
    "group_testing",
    "infer_factor",
    "pools_to_matrix",
    "read_alist",
    "scomp",
    "simulate",
    "write_alist",
]
