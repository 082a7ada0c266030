# SPDX-License-Identifier: Apache-2.0
"""New limits of pools outdate the decisions that read the old ones."""

from tests.unit.ledger.records import Records
from tonnage.ledger.inventory import pool_limits
from tonnage.ledger.inventory.pool_limits import Limit


def test_limits_are_written_with_a_new_generation(records: Records) -> None:
    first, second, third = (records.pool(f"host@b#p{number}", thin_limit_gb=5.0, generation=4) for number in range(3))
    records.run(pool_limits.update_limits, [Limit(second, 3.0, None), Limit(first, 2.0, 200.0)])
    rows = records.rows("SELECT id, ratio, thin_limit_gb, generation FROM pools ORDER BY id")
    assert rows == [(first, 2.0, 200.0, 5), (second, 3.0, None, 5), (third, 1.0, 5.0, 4)]


def test_no_limits_change_nothing(records: Records) -> None:
    records.pool(generation=4)
    records.run(pool_limits.update_limits, [])
    assert records.rows("SELECT generation FROM pools") == [(4,)]
