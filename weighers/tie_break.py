# SPDX-License-Identifier: Apache-2.0
"""Chance that is the same everywhere: drawn from the request's id and the pools' names.

Every scheduler draws the same for the same request, whatever the order of its rows, and an explanation shows what a
decision would draw.
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

#: So few rows are ordered one by one.
_FEW = 8


def shuffled(
    pools: PoolTable, request: Request, rows: npt.NDArray[np.intp], purpose: str = ""
) -> npt.NDArray[np.uint64]:
    """Return numbers that order these rows at random; those drawn for different purposes have nothing in common."""
    mixed: npt.NDArray[np.uint64] = _mixed(pools.name_hash[rows] ^ np.uint64(stable_hash(purpose + request.request_id)))
    return mixed


def first(pools: PoolTable, request: Request, rows: npt.NDArray[np.intp]) -> int:
    """Return the row that comes first in that order."""
    if len(rows) == 1:
        return int(rows[0])
    if len(rows) > _FEW:
        return int(rows[shuffled(pools, request, rows).argmin()])
    seed = stable_hash(request.request_id)
    order = [_mixed(number ^ seed) for number in pools.name_hash[rows].tolist()]
    return int(rows[order.index(min(order))])


def _mixed(bits: Any) -> Any:
    """Mix 64 bits, or those of each number in a column."""
    bits = bits * _MIX_1 & _ALL
    return (bits ^ bits >> 31) * _MIX_2 & _ALL


def chances(pools: PoolTable, request: Request, rows: npt.NDArray[np.intp], purpose: str) -> npt.NDArray[np.float64]:
    """Return for each of these rows a number between 0 and 1, neither of them, any of which is as likely."""
    return ((shuffled(pools, request, rows, purpose) >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52
