# SPDX-License-Identifier: Apache-2.0
"""Use is counted from the rows that exist."""

import sqlalchemy as sa

from tests.unit.extensions.cinder.quota.quota_rows import (
    GIGABYTES,
    GIGABYTES_GOLD,
    PROJECT,
    SNAPSHOTS,
    VOLUMES,
    VOLUMES_GOLD,
    QuotaRows,
)
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota import quota_usage
from tonnage.extensions.cinder.quota.quota_usage import Resource, Rules, Use

SNAPSHOTS_GOLD = Resource("snapshots_gold", "snapshots", "t-gold")
BACKUPS, BACKUP_GIGABYTES = Resource("backups", "backups"), Resource("backup_gigabytes", "backup_gigabytes")
GROUPS = Resource("groups", "groups")
ALL = (
    *(VOLUMES, GIGABYTES, SNAPSHOTS, VOLUMES_GOLD, GIGABYTES_GOLD, SNAPSHOTS_GOLD),
    *(BACKUPS, BACKUP_GIGABYTES, GROUPS),
)


def fill(rows: QuotaRows) -> None:
    gold = rows.put(tables.VOLUMES, size=10, volume_type_id="t-gold")
    rows.put(tables.VOLUMES, size=3, volume_type_id="t-other")
    rows.put(tables.VOLUMES, size=100, use_quota=False)
    rows.put(tables.VOLUMES, size=200, deleted=True)
    rows.put(tables.VOLUMES, size=400, project_id="q", volume_type_id="t-gold")
    rows.put(tables.SNAPSHOTS, volume_id=gold, volume_size=10)
    rows.put(tables.SNAPSHOTS, volume_id=gold, volume_size=10, use_quota=False)
    rows.put(tables.BACKUPS, size=7)
    rows.put(tables.BACKUPS, size=None)
    rows.put(tables.GROUPS)


EXPECTED = {
    "volumes": 2,
    "gigabytes": 23,
    "snapshots": 1,
    "volumes_gold": 1,
    "gigabytes_gold": 20,
    "snapshots_gold": 1,
    "backups": 2,
    "backup_gigabytes": 7,
    "groups": 1,
}


def test_rows_that_count_are_in_use(rows: QuotaRows) -> None:
    fill(rows)
    with rows.engine.connect() as connection:
        use, ended = quota_usage.exact(connection, PROJECT, ALL, rows.rules)
    assert use == {name: Use(number) for name, number in EXPECTED.items()}
    assert ended == 0


def test_snapshots_use_no_gigabytes_with_no_snapshot_gb_quota(rows: QuotaRows) -> None:
    fill(rows)
    rows.rules = Rules(60.0, snapshots_use_gigabytes=False)
    with rows.engine.connect() as connection:
        use, _ = quota_usage.exact(connection, PROJECT, ALL, rows.rules)
    assert (use["gigabytes"], use["gigabytes_gold"], use["snapshots"]) == (Use(13), Use(10), Use(1))
    assert rows.use()["gigabytes"] == (13, 0)


def test_a_project_without_rows_uses_nothing(rows: QuotaRows) -> None:
    with rows.engine.connect() as connection:
        use, ended = quota_usage.exact(connection, "none", ALL, rows.rules)
    assert (set(use.values()), ended) == ({Use()}, 0)


def test_the_list_of_use_is_the_same(rows: QuotaRows) -> None:
    fill(rows)
    found = rows.use()
    assert {name: in_use for name, (in_use, _) in found.items()} == EXPECTED
    with rows.engine.connect() as connection:
        every = quota_usage.by_project(connection, {"t-gold": "gold"}, rows.rules)
    assert every["q"] == {name: Use(1 if name.startswith("v") else 400) for name in
                          ("volumes", "gigabytes", "volumes_gold", "gigabytes_gold")}  # fmt: skip
    assert every[PROJECT]["gigabytes"] == Use(23)


def test_reservations_are_added(rows: QuotaRows) -> None:
    rows.put(tables.VOLUMES, size=1)
    rows.reserve((VOLUMES, 1, 5), (GIGABYTES, 4, -1))
    with rows.engine.connect() as connection:
        use, _ = quota_usage.exact(connection, PROJECT, [VOLUMES, GIGABYTES], rows.rules)
    assert use == {"volumes": Use(1, 1), "gigabytes": Use(1, 4)}
    assert rows.use() == {"volumes": (1, 1), "gigabytes": (1, 4)}
    assert use["gigabytes"].total == 5


def test_ended_reservations_are_numbered(rows: QuotaRows) -> None:
    rows.reserve((VOLUMES, 1, 5), (GIGABYTES, 4, -1))
    rows.age(61)
    with rows.engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(tables.RESERVATIONS)) == 2
        use, ended = quota_usage.exact(connection, PROJECT, [VOLUMES], rows.rules)
    assert (use, ended) == ({"volumes": Use()}, 2)
