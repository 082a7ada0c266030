# SPDX-License-Identifier: Apache-2.0
"""The pools of a driver as columns."""

import datetime

from tests.unit.extensions.kubernetes.fit.decisions import GI, NODES, NOW, driver, pool, volume, zone
from tonnage.extensions.kubernetes.capacity import node_packing, pool_columns
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim, ClaimSums
from tonnage.extensions.kubernetes.capacity.driver_storage import Storage
from tonnage.extensions.kubernetes.capacity.node_accessibility import AccessibilityCache
from tonnage.extensions.kubernetes.fit import node_decision


def test_updated_columns_leave_the_old_ones_unchanged() -> None:
    before = pool_columns.from_driver(driver(Storage("fast", (pool("p", 4), pool("q", 4)))))
    after = before.updated(2, [("fast", pool("q", 9))], True)
    found = node_decision.decide(
        {before.name: after},
        {before.name: after.packing_pools(0, ClaimSums())},
        0,
        [volume(9)],
        NODES,
        AccessibilityCache(),
    )
    assert [each.pool for each in found.placements(0)] == [("fast", "q")]
    assert before.capacity.tolist() == [4 * GI, 4 * GI]


def test_the_largest_volume_is_limited_by_the_capacity_and_unknown_pools_take_none() -> None:
    columns = pool_columns.from_driver(
        driver(
            Storage(
                "fast",
                (
                    pool("all", 4),
                    pool("part", 4, maximum_volume_size=3 * GI),
                    pool("full", 4, maximum_volume_size=9 * GI),
                    pool("unknown"),
                    pool("huge", 2**40),
                ),
            )
        )
    )
    assert columns.capacity.tolist() == [4 * GI] * 3 + [-1, node_packing.MAX_CAPACITY]
    largest = [4 * GI, 3 * GI, 4 * GI, node_packing.NO_VOLUMES, node_packing.MAX_CAPACITY]
    assert columns.max_volume_size.tolist() == largest


def test_pools_with_one_backing_are_one_group_across_storage_classes() -> None:
    columns = pool_columns.from_driver(
        driver(
            Storage("fast", (pool("p", 1, backing_id="disks"), pool("q", 1))),
            Storage("empty"),
            Storage("slow", (pool("p", 1, backing_id="disks", node_topology=zone("a")), pool("r", 1))),
        )
    )
    assert columns.group.tolist() == [0, 1, 0, 2]
    assert (columns.group_count, columns.group_of_backing) == (3, {"disks": 0})
    assert {name: rows.tolist() for name, rows in columns.storage_rows.items()} == {
        "fast": [0, 1],
        "empty": [],
        "slow": [2, 3],
    }
    assert columns.label_keys == {"fast": (), "empty": (), "slow": ("zone",)}
    assert columns.row_of["slow", "r"] == 3


def test_claims_are_subtracted_from_the_disks_and_expired_pools_take_no_volumes() -> None:
    expired = pool("old", 9, expires_at=NOW)
    columns = pool_columns.from_driver(driver(Storage("fast", (pool("p", 4), expired))))
    now = pool_columns.to_microseconds(NOW)
    packing = columns.packing_pools(
        now, ClaimSums([ActiveClaim(("fast", "p"), 3 * GI), ActiveClaim(("gone", "x"), GI)])
    )
    assert packing.group_free.tolist() == [GI, 0]
    assert packing.max_volume_size.tolist() == [4 * GI, node_packing.NO_VOLUMES]
    before = columns.packing_pools(now - 1, ClaimSums())
    assert (before.group_free.tolist(), before.max_volume_size.tolist()) == ([4 * GI, 9 * GI], [4 * GI, 9 * GI])


def test_live_pools_are_those_of_the_time_of_each_decision() -> None:
    """Columns keep them for the next decision, until a pool expires."""
    hour = datetime.timedelta(hours=1)
    stored = (
        pool("p", 4),
        pool("early", 9, expires_at=NOW + hour, backing_id="disks"),
        pool("late", 5, expires_at=NOW + 2 * hour, backing_id="disks"),
    )
    columns = pool_columns.from_driver(driver(Storage("fast", stored)))
    claims = ClaimSums(
        [ActiveClaim(("fast", "p"), GI), ActiveClaim(("fast", "p"), GI), ActiveClaim(("fast", "late"), GI)]
    )

    def free(later: datetime.timedelta) -> list[int]:
        return columns.packing_pools(pool_columns.to_microseconds(NOW + later), claims).group_free.tolist()

    almost = hour - datetime.timedelta(microseconds=1)
    # The claim of the smaller pool takes more of the disks that it shares.
    mirrored = [2 * GI, 9 * GI - -(-9 * GI // 5)]
    expected = [mirrored, mirrored, [2 * GI, 4 * GI], [2 * GI, 0], mirrored]
    assert [free(later) for later in (0 * hour, almost, hour, 2 * hour, 0 * hour)] == expected
    renewed = columns.updated(2, [("fast", pool("late", 6, backing_id="disks"))], True)
    packing = renewed.packing_pools(pool_columns.to_microseconds(NOW + 2 * hour), claims)
    assert packing.group_free.tolist() == [2 * GI, 5 * GI]


def test_times_are_microseconds_since_1970() -> None:
    epoch = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  -- as the ledger has times
    assert pool_columns.to_microseconds(epoch + datetime.timedelta(seconds=1, microseconds=2)) == 1_000_002
