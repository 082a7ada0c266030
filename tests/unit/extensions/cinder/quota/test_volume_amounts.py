# SPDX-License-Identifier: Apache-2.0
"""Reservations of a volume type are refused if the volume has changed since cinder-api has read it."""

import pytest

from tests.unit.extensions.cinder.quota.quota_rows import GIGABYTES, GIGABYTES_GOLD, SNAPSHOTS, VOLUMES_GOLD, QuotaRows
from tonnage.extensions.cinder.quota import quota_operations as operations
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_operations import Booking, Operation
from tonnage.extensions.cinder.quota.quota_usage import Resource, Rules
from tonnage.extensions.cinder.quota.volume_amounts import VolumeChanged

SNAPSHOTS_GOLD = Resource("snapshots_gold", "snapshots", "t-gold")

EXTENSION = ((GIGABYTES, 1, 100), (GIGABYTES_GOLD, 1, 100))
SNAPSHOT = ((SNAPSHOTS, 1, 100), (GIGABYTES, 2, 100), (SNAPSHOTS_GOLD, 1, 100), (GIGABYTES_GOLD, 2, 100))


def retype(size: int, snapshots: int = 0, limit: int = 100) -> tuple[tuple[Resource, int, int], ...]:
    """Return the amounts of a retype to the type ``gold``, as cinder-api takes them from the row."""
    typed = [(VOLUMES_GOLD, 1, limit), (GIGABYTES_GOLD, size, limit)]
    return (*typed, *([(SNAPSHOTS_GOLD, snapshots, limit)] if snapshots else []))


@pytest.fixture
def volume(rows: QuotaRows) -> str:
    """A volume of 2 GiB of the type ``gold``."""
    return rows.put(tables.VOLUMES, size=2, volume_type_id="t-gold", status="extending")


def refused(rows: QuotaRows, *amounts: tuple[Resource, int, int], operation: Operation, volume: str) -> bool:
    """Return whether a reservation is refused because the volume has changed. It leaves nothing then."""
    try:
        rows.reserve(*amounts, booking=Booking(operation, volume))
    except VolumeChanged:
        return rows.reservations() == 0
    return False


def test_a_refusal_names_the_volume(rows: QuotaRows, volume: str) -> None:
    rows.change(tables.VOLUMES, volume, volume_type_id="t-silver")
    with pytest.raises(VolumeChanged, match=f"volume {volume} has changed its type"):
        rows.reserve(*EXTENSION, booking=Booking(operations.EXTEND, volume))


def test_amounts_of_the_type_of_the_volume_are_reserved(rows: QuotaRows, volume: str) -> None:
    assert not refused(rows, *EXTENSION, operation=operations.EXTEND, volume=volume)
    assert not refused(rows, *SNAPSHOT, operation=operations.CREATE_SNAPSHOT, volume=volume)


@pytest.mark.parametrize(
    ("operation", "amounts"), [(operations.EXTEND, EXTENSION), (operations.CREATE_SNAPSHOT, SNAPSHOT)]
)
def test_amounts_of_an_earlier_type_are_refused(
    operation: Operation, amounts: tuple[tuple[Resource, int, int], ...], rows: QuotaRows, volume: str
) -> None:
    rows.change(tables.VOLUMES, volume, volume_type_id="t-silver")
    assert refused(rows, *amounts, operation=operation, volume=volume)


def test_a_snapshot_of_a_volume_that_is_retyped_is_refused(rows: QuotaRows, volume: str) -> None:
    rows.change(tables.VOLUMES, volume, status="retyping")
    assert refused(rows, *SNAPSHOT, operation=operations.CREATE_SNAPSHOT, volume=volume)


@pytest.mark.parametrize(("size", "is_refused"), [(2, False), (1, True), (3, True)])
def test_a_retype_reserves_the_size_that_the_volume_has(
    size: int, is_refused: bool, rows: QuotaRows, volume: str
) -> None:
    rows.change(tables.VOLUMES, volume, volume_type_id="t-silver", status="available")
    assert refused(rows, *retype(size), operation=operations.RETYPE, volume=volume) == is_refused


@pytest.mark.parametrize("limit", [100, -1])
@pytest.mark.parametrize(
    ("size", "snapshots", "use_gigabytes", "is_refused"),
    [(4, 1, True, False), (2, 0, True, True), (2, 1, True, True), (2, 1, False, False), (2, 0, False, True)],
)
def test_a_retype_reserves_the_snapshots_that_the_volume_has(
    size: int, snapshots: int, use_gigabytes: bool, is_refused: bool, limit: int, rows: QuotaRows, volume: str
) -> None:
    rows.rules = Rules(60.0, use_gigabytes)
    rows.change(tables.VOLUMES, volume, volume_type_id="t-silver", status="available")
    rows.put(tables.SNAPSHOTS, volume_id=volume, volume_size=2)
    rows.put(tables.SNAPSHOTS, volume_id=volume, volume_size=2, deleted=True)
    rows.put(tables.SNAPSHOTS, volume_id="other", volume_size=2)
    amounts = retype(size, snapshots, limit)
    assert refused(rows, *amounts, operation=operations.RETYPE, volume=volume) == is_refused


def test_amounts_without_a_type_hold_for_any(rows: QuotaRows, volume: str) -> None:
    rows.change(tables.VOLUMES, volume, volume_type_id="t-silver")
    assert not refused(rows, (GIGABYTES, 1, 100), operation=operations.EXTEND, volume=volume)


def test_a_volume_that_is_gone_is_for_cinder_to_refuse(rows: QuotaRows, volume: str) -> None:
    rows.change(tables.VOLUMES, volume, volume_type_id="t-silver", deleted=True)
    assert not refused(rows, *EXTENSION, operation=operations.EXTEND, volume=volume)


def test_other_operations_are_not_compared(rows: QuotaRows, volume: str) -> None:
    rows.change(tables.VOLUMES, volume, volume_type_id="t-silver")
    assert not refused(rows, *EXTENSION, operation=operations.TRANSFER, volume=volume)
