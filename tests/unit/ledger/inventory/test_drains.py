# SPDX-License-Identifier: Apache-2.0
"""The progress of drains: the volumes that are left, those that cannot move, and the reasons."""

from typing import Any

import pytest

from tests.unit.ledger.records import Records
from tonnage.ledger import models
from tonnage.ledger.inventory import backends, drains
from tonnage.ledger.inventory.drains import DrainProgress

NAME = "host@old"
REFUSAL = "No pool for 3 GiB: 1 pool; CapacityFilter refused 1"


@pytest.fixture
def records() -> Records:
    """A ledger with a draining backend, and another one with a volume."""
    records = Records()
    records.backend(NAME, draining=True, enabled=False)
    records.claimed_volume(records.pool("host@other#p"))
    return records


def add(records: Records, **values: Any) -> str:
    """Add a volume to the draining backend; return its id."""
    pools = records.rows("SELECT id FROM pools WHERE name = :name", name=f"{NAME}#p")
    return records.claimed_volume(int(pools[0][0]) if pools else records.pool(f"{NAME}#p"), **values)


def load(records: Records) -> dict[str, DrainProgress]:
    with records.database.reading() as session:
        return drains.load(session)


def test_only_draining_backends_have_a_progress(records: Records) -> None:
    assert load(records) == {NAME: DrainProgress(0, 0, 0, [])}
    add(records)
    add(records, status="maintenance", migration_status="migrating")
    assert load(records) == {NAME: DrainProgress(2, 1, 0, [])}
    assert not load(records)[NAME].is_stuck
    records.run(backends.set_state, NAME, enabled=True, draining=False, reason=None)
    assert load(records) == {}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"drain_refusal": REFUSAL}, REFUSAL),
        ({"status": "error_deleting", "status_reason": "it is in use"}, "is error_deleting: it is in use"),
        (
            {"migration_status": "error", "status_reason": "disk full"},
            "failed to move, and is tried again ten minutes later: disk full",
        ),
        (
            {"group_id": "11111111-1111-1111-1111-111111111111"},
            "belongs to group 11111111-1111-1111-1111-111111111111, whose volumes stay together: remove it from the "
            "group",
        ),
    ],
)
def test_a_volume_that_cannot_move_has_a_reason(records: Records, values: dict[str, Any], reason: str) -> None:
    volume_id = add(records, **values)
    assert load(records) == {NAME: DrainProgress(1, 0, 1, [f"volume {volume_id}: {reason}"])}
    assert load(records)[NAME].is_stuck
    add(records)
    assert (load(records)[NAME].volumes, load(records)[NAME].is_stuck) == (2, False)


def test_only_the_first_reasons_are_told(records: Records) -> None:
    ids = sorted(add(records, drain_refusal=REFUSAL) for _ in range(5))
    progress = load(records)[NAME]
    assert progress.stuck == 5
    assert progress.reasons == [f"volume {id}: {REFUSAL}" for id in ids[:3]]


def test_a_volume_that_moves_has_no_reason_to_stay(records: Records) -> None:
    add(records, status="maintenance", drain_refusal=REFUSAL)
    assert load(records) == {NAME: DrainProgress(1, 1, 0, [])}


def test_a_recorded_reason_changes_nothing_of_the_volume_and_ends_with_the_drain(records: Records) -> None:
    volume_id = add(records)

    def volume() -> models.Volume:
        with records.database.reading() as session:
            return session.get_one(models.Volume, volume_id)

    assert records.run(drains.record, {volume_id: REFUSAL}) == {volume_id}
    assert (volume().drain_refusal, volume().updated_at) == (REFUSAL, None)
    records.run(backends.set_state, NAME, enabled=False, draining=False, reason="new disks")
    assert (volume().drain_refusal, volume().updated_at) == (None, None)


def test_other_figures_make_no_other_reason(records: Records) -> None:
    first, second = add(records), add(records)
    small, smaller, disabled = "p0 has headroom 2.50 GiB", "p0 has headroom 0.75 GiB", "p0 is on a disabled backend"
    assert records.run(drains.record, {first: small, second: small}) == {first, second}
    assert records.run(drains.record, {first: smaller, second: disabled}) == {second}
    assert records.run(drains.record, {}) == set()
