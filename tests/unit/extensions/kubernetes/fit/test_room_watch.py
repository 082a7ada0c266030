# SPDX-License-Identifier: Apache-2.0
"""Room that comes: claims that end, and figures that grow."""

import datetime
from typing import Any

import pytest

from tests.unit.extensions.kubernetes.fit.figures import DRIVER, LEASE, claim_for_pod, write
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import claim_rows, driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.room_watch import RoomWatch
from tonnage.ledger.db import database

pytestmark = pytest.mark.usefixtures("written")


@pytest.fixture
def room(ledger: database.Database) -> RoomWatch:
    """A watch that has looked once."""
    watch = RoomWatch(ledger)
    assert watch.has_come()
    return watch


def set_expiry(ledger: database.Database, expiry: str) -> None:
    """Write another expiry of the figures of a pool."""
    pool = {"name": "s", "expiryTime": expiry}
    change = {"status": {"storage": [{"storageClassName": "shared", "pools": [pool]}]}}
    patch = type_conversion.convert(change, DriverPatch, lambda kind, value: kind.parse(value))
    ledger.run(driver_rows.patch, DRIVER, patch)


def test_room_comes_when_a_claim_is_released(ledger: database.Database, room: RoomWatch) -> None:
    claim_for_pod(ledger, "data")
    assert not room.has_come()
    ledger.run(capacity_claims.release, "u1")
    assert room.has_come()
    assert not room.has_come()


def test_room_comes_when_a_lease_ends(
    ledger: database.Database, room: RoomWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_for_pod(ledger, "data")
    assert not room.has_come()
    real = claim_rows.moment

    def later(*arguments: Any) -> claim_rows.Moment:
        moment = real(*arguments)
        return moment._replace(now=moment.now + datetime.timedelta(seconds=LEASE))

    monkeypatch.setattr(claim_rows, "moment", later)
    assert room.has_come()
    assert not room.has_come()


def test_room_comes_with_larger_figures(ledger: database.Database, room: RoomWatch) -> None:
    write(ledger, "9Gi")
    assert not room.has_come()
    write(ledger, "10Gi")
    assert room.has_come()


def test_room_comes_when_expired_figures_are_renewed(ledger: database.Database, room: RoomWatch) -> None:
    set_expiry(ledger, "2020-01-01T00:00:00Z")
    assert not room.has_come()
    set_expiry(ledger, "2999-01-01T00:00:00Z")
    assert room.has_come()
    set_expiry(ledger, "2999-01-01T00:01:00Z")
    assert not room.has_come()


def test_room_comes_with_another_driver(ledger: database.Database, room: RoomWatch) -> None:
    ledger.run(driver_rows.delete, DRIVER)
    assert not room.has_come()
    write(ledger)
    assert room.has_come()
