# SPDX-License-Identifier: Apache-2.0
"""Pools and the table of all pools: the names that plug-ins import."""

from tonnage.capacity.pools.pool import Pool
from tonnage.capacity.pools.pool_table import PoolTable

__all__ = ["Pool", "PoolTable"]
