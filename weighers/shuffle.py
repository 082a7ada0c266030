# SPDX-License-Identifier: Apache-2.0
"""Chance that is the same everywhere: drawn from the request's id and the pools' names.

Every scheduler draws the same for the same request, whatever the order of its rows, and an explanation shows what a
decision would draw.
"""

import numpy as np
import numpy.typing as npt

from tonnage.capacity.names import stable_hash
from tonnage.capacity.pools import PoolTable
from tonnage.capacity.request import Request

# Odd constants of the splitmix64 generator, by Sebastiano Vigna.
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def shuffled(
    pools: PoolTable, request: Request, rows: npt.NDArray[np.intp], purpose: str = ""
) -> npt.NDArray[np.uint64]:
    """Return numbers that order these rows at random; those drawn for different purposes have nothing in common."""
    mixed = pools.name_hash[rows] ^ np.uint64(stable_hash(purpose + request.request_id))
    mixed *= _MIX_1
    mixed ^= mixed >> np.uint64(31)
    mixed *= _MIX_2
    return mixed


def chances(pools: PoolTable, request: Request, rows: npt.NDArray[np.intp], purpose: str) -> npt.NDArray[np.float64]:
    """Return for each of these rows a number between 0 and 1, neither of them, any of which is as likely."""
    return ((shuffled(pools, request, rows, purpose) >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52
