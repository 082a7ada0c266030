# SPDX-License-Identifier: Apache-2.0
"""The pools of a driver as columns."""

from tests.unit.extensions.kubernetes.fit.decisions import GI, NODES, driver, pool, volume
from tonnage.extensions.kubernetes.capacity import pool_columns
from tonnage.extensions.kubernetes.capacity.driver_storage import Storage
from tonnage.extensions.kubernetes.capacity.node_accessibility import AccessibilityCache
from tonnage.extensions.kubernetes.fit import node_decision


def test_updated_columns_leave_the_old_ones_unchanged() -> None:
    before = pool_columns.from_driver(driver(Storage("fast", (pool("p", 4), pool("q", 4)))))
    after = before.updated(2, [("fast", pool("q", 9))], True)
    found = node_decision.decide({before.name: after}, {}, 0, [volume(9)], NODES, AccessibilityCache())
    assert [each.pool for each in found.placements(0)] == [("fast", "q")]
    assert before.capacity.tolist() == [4 * GI, 4 * GI]
