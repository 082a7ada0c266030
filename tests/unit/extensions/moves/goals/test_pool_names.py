# SPDX-License-Identifier: Apache-2.0
"""The pools that an argument names."""

import pytest

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import Pool
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.moves.goals import pool_names

POOLS = PoolTable([Pool(name=name, total=1, free=1) for name in ("h@b#q", "h@b#p", "h@c#p")])


def test_a_backend_stands_for_its_pools() -> None:
    assert pool_names.of_pool_or_backend(POOLS, "h@b") == ["h@b#p", "h@b#q"]
    assert pool_names.of_pool_or_backend(POOLS, "h@c#p") == ["h@c#p"]


def test_missing_ones_are_errors() -> None:
    with pytest.raises(errors.NotFound, match="backend h@d could not be found: no pool of it is reported"):
        pool_names.of_pool_or_backend(POOLS, "h@d")
    with pytest.raises(errors.NotFound, match="pool h@b#x could not be found: no report has named it"):
        pool_names.require(POOLS, ["h@b#p", "h@b#x"])


def test_a_backend_in_the_place_of_a_pool_is_an_error_with_its_pools() -> None:
    with pytest.raises(
        errors.NotFound, match=r"^h@b is a backend, and a pool is expected: it has the pools h@b#p, h@b#q$"
    ):
        pool_names.require(POOLS, ["h@c#p", "h@b"])
    many = PoolTable([Pool(name=f"h@b#{number}", total=1, free=1) for number in range(8)])
    with pytest.raises(errors.NotFound, match=r"it has the pools h@b#0, h@b#1, h@b#2, h@b#3, h@b#4 and 3 more$"):
        pool_names.require(many, ["h@b"])
