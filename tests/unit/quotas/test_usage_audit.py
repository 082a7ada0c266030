# SPDX-License-Identifier: Apache-2.0
"""The check of usage counters and their correction."""

import datetime

import sqlalchemy as sa

from tests.unit.quotas.test_reservations import GIGABYTES, PROJECT, limit, limited
from tonnage.ledger import models
from tonnage.quotas import usage_audit
from tonnage.quotas.limits import Item, Resource
from tonnage.quotas.usage_audit import Cause
from tonnage.rpc.messages import Answer


def test_a_counter_behind_the_volumes_is_found_and_corrected() -> None:
    world = limited(gigabytes=100)
    world.create(5, 7)
    assert usage_audit.check(world.database).findings == []
    with world.engine.begin() as connection:
        connection.execute(sa.update(models.QuotaUsage).values(gigabytes=4))
    [found] = usage_audit.check(world.database).findings
    assert (found.cause, found.drift, found.resource, found.counter, found.usage) == (
        Cause.BEHIND,
        True,
        "gigabytes",
        4,
        12,
    )
    assert usage_audit.check(world.database, "other").findings == []
    assert usage_audit.sync(world.database).drift == [found]
    assert usage_audit.check(world.database).findings == []
    assert world.rows("SELECT gigabytes FROM quota_usages") == [(12,)]


def test_unlimited_resources_are_counted_with_limited_ones() -> None:
    """A counter row is trusted as a whole, whichever of its figures is limited."""
    world = limited(volumes=5)
    volume_id = world.made(3)
    assert isinstance(world.extend(volume_id, 9), Answer)
    assert usage_audit.check(world.database).findings == []


def test_an_untrusted_counter_is_no_drift() -> None:
    world = limited(gigabytes=100)
    world.create(5, 7)
    long_ago = datetime.datetime(2020, 1, 1)  # noqa: DTZ001  (the ledger's times are UTC without a zone)
    with world.engine.begin() as connection:
        connection.execute(sa.update(models.QuotaUsage).values(gigabytes=4, counted_at=long_ago))
    assert usage_audit.check(world.database).findings == []


def test_a_counter_ahead_of_the_volumes_is_no_drift() -> None:
    world = limited(gigabytes=100)
    [made] = world.create(5)
    assert isinstance(made, Answer)
    world.settle()
    world.delete(made.volume_id)
    world.settle()
    found = usage_audit.check(world.database)
    assert {one.cause for one in found.findings} == {Cause.AHEAD}
    assert found.drift == []
    assert usage_audit.sync(world.database).drift == []
    assert usage_audit.check(world.database).findings == []


def test_limits_of_deleted_types_are_removed() -> None:
    world = limited(gigabytes=100)
    limit(world, PROJECT, {Item(Resource.GIGABYTES, "no-such-type"): 5, GIGABYTES: 100})
    [found] = usage_audit.sync(world.database).findings
    assert found.cause is Cause.TYPE_GONE
    assert usage_audit.check(world.database).findings == []
    assert world.rows("SELECT resource, volume_type_id FROM quota_limits WHERE hard_limit = 100") == [("gigabytes", "")]
