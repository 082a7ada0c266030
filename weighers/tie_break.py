# SPDX-License-Identifier: Apache-2.0
"""Random numbers that are the same in every scheduler: hashes of the request's id and the pools' names.

They do not depend on the order of the rows, and an explanation has the same numbers as the decision.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tonnage.capacity.names import stable_hash
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request

# Odd constants of the splitmix64 generator, by Sebastiano Vigna.
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_ALL = 2**64 - 1

#: Up to this number of rows, numbers are computed one by one, which is faster.
_FEW = 8


def shuffled(
    pools: PoolTable, request: Request, rows: npt.NDArray[np.intp], purpose: str = ""
) -> npt.NDArray[np.uint64]:
    """Return numbers that order these rows at random. Numbers for different purposes are independent."""
    mixed: npt.NDArray[np.uint64] = _mixed(pools.name_hash[rows] ^ np.uint64(stable_hash(purpose + request.request_id)))
    return mixed


def first(pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> int:
    """Return the first row in the order of :func:`shuffled`."""
    if len(rows) == 1:
        return int(rows[0])
    if len(rows) > _FEW:
        return int(rows[shuffled(pools, request, rows).argmin()])
    seed = stable_hash(request.request_id)
    order = [_mixed(number ^ seed) for number in pools.name_hash[rows].tolist()]
    return int(rows[order.index(min(order))])


def _mixed(bits: Any) -> Any:
    """Mix the 64 bits of a number, or of each number in a column."""
    bits = bits * _MIX_1 & _ALL
    return (bits ^ bits >> 31) * _MIX_2 & _ALL


def chances(pools: PoolTable, request: Request, rows: npt.NDArray[np.intp], purpose: str) -> npt.NDArray[np.float64]:
    """Return for each of these rows a uniform random number between 0 and 1, both excluded."""
    return ((shuffled(pools, request, rows, purpose) >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52
