"""Decoding with one factor known: group testing, parity-check codes and the general case.

What works on the sparse graph of a known factor belongs here, with designs of pools, channels of
coding and the alist format; fits with both factors unknown do not, they are in `boolweave.fit`.
Start reading with `tanner.py`, then `group_testing.py` or `parity_check.py`.
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
