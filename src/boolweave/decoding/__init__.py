"""Decoding with one known factor: group testing, parity-check codes and the general case.

This package holds everything that works on the sparse graph of a known factor, with designs of
pools, channels of coding theory and the alist format. Fits in which both factors are unknown are in
`boolweave.fit`. Start reading with `tanner.py`, then `group_testing.py` or `parity_check.py`.
"""

from boolweave.decoding.factor import FactorResult, infer_factor
from boolweave.decoding.group_testing import (
    GroupTestingResult,
    SimulationResult,
    group_testing,
    simulate,
)
from boolweave.decoding.parity_check import (
    DecodingResult,
    ParityCheckCode,
    awgn_llr,
    bec_llr,
    bsc_llr,
    ebn0_to_sigma,
    read_alist,
    write_alist,
)
from boolweave.decoding.pools import comp, definite_defectives, design_pools, pools_to_matrix, scomp

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
