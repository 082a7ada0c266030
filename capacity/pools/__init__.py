# SPDX-License-Identifier: Apache-2.0
"""Pools and the table that holds all of them: the names that plug-ins use."""

from tonnage.capacity.pools.pool import Pool
from tonnage.capacity.pools.pool_table import PoolTable

__all__ = ["Pool", "PoolTable"]
