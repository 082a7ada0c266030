# SPDX-License-Identifier: Apache-2.0
"""The decisions on one volume, found by its id, its name or its request, and why it is where it is."""

import datetime

import pytest

from tests.unit.ledger.records import Records, new_id
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import volume_decisions
from tonnage.ledger.catalog.volume_decisions import VolumeDecisions
from tonnage.ledger.models import claim_verbs

EARLIER = datetime.datetime.fromisoformat("2026-01-01")


def refusal(records: Records, volume_id: str, message: str = "no room") -> None:
    records.add(
        models.Refusal(
            request_id="req-refused",
            volume_id=volume_id,
            project_id="demo",
            verb="create",
            request="30 GiB",
            filter="CapacityFilter",
            code="no_capacity",
            message=message,
            request_body={"volume": {"size": 30}},
        )
    )


@pytest.fixture
def pool(records: Records) -> int:
    return records.pool("host@b#p")


def test_a_volume_is_found_by_id_name_and_request(records: Records, pool: int) -> None:
    volume_id = records.volume(pool, name="data", request_id="req-1", requested_zone="north", hints={"near": "x"})
    for name in (volume_id, "data", "req-1"):
        decisions = records.run(volume_decisions.find, name, 60.0)
        assert (decisions.id, decisions.pool, decisions.of_cinder) == (volume_id, "host@b#p", False)
    assert decisions.request_body == {
        "volume": {"size": 3, "availability_zone": "north"},
        "OS-SCH-HNT:scheduler_hints": {"near": "x"},
    }


def test_a_name_of_several_volumes_is_refused_with_their_ids(records: Records) -> None:
    first, second = sorted(records.volume(name="data") for _ in range(2))
    with pytest.raises(errors.InvalidInput, match=f"such as {first}, {second}$"):
        records.run(volume_decisions.find, "data", 60.0)


def test_the_last_claim_in_the_pool_is_the_reason(records: Records, pool: int) -> None:
    volume_id = records.volume(pool, attempted_pools=["host@a#p"])
    assert records.run(volume_decisions.find, volume_id, 60.0).reason == (
        "the ledger has no decision about it, after host@a#p failed to create it"
    )
    elsewhere = records.pool("host@c#p")
    records.claim(volume_id, elsewhere, request_id="req-1", created_at=EARLIER)
    migration = EARLIER + datetime.timedelta(days=1)
    records.claim(volume_id, pool, request_id="req-2", verb=claim_verbs.MIGRATE, created_at=migration)
    records.claim(volume_id, pool, request_id="req-3", verb=claim_verbs.EXTEND)
    records.rows("UPDATE volumes SET attempted_pools = '[]'")
    assert records.run(volume_decisions.find, volume_id, 60.0).reason == "moved here by request req-2"


def test_a_claim_without_a_request_was_adopted(records: Records, pool: int) -> None:
    volume_id = records.claimed_volume(pool)
    assert records.run(volume_decisions.find, volume_id, 60.0).reason == "adopted from Cinder without a decision"


def test_a_volume_without_a_pool_has_its_error_as_the_reason(records: Records) -> None:
    volume_id = records.volume(status="error", status_reason="every pool failed")
    assert records.run(volume_decisions.find, volume_id, 60.0).reason == "every pool failed"
    assert VolumeDecisions(id="v", request_id="r", project_id="p").reason == "no pool is chosen yet"


def test_a_refused_request_is_found_by_its_id_and_by_its_volume(records: Records) -> None:
    volume_id = new_id()
    refusal(records, volume_id, "first")
    refusal(records, volume_id, "last")
    for name in ("req-refused", volume_id):
        decisions = records.run(volume_decisions.find, name, 60.0)
        assert (decisions.id, decisions.request_id, decisions.reason) == (volume_id, "req-refused", "last")
        assert decisions.request_body == {"volume": {"size": 30}}
        assert not decisions.of_cinder


def test_a_refusal_is_of_cinder_where_backends_are_observed(records: Records) -> None:
    records.backend(observed=True)
    refusal(records, new_id())
    assert records.run(volume_decisions.find, "req-refused", 60.0).of_cinder


def test_a_volume_of_another_system_has_the_pool_of_its_last_live_claim(records: Records, pool: int) -> None:
    volume_id = new_id()
    records.claim(volume_id, pool, state="released", request_id="req-1", created_at=EARLIER)
    decisions = records.run(volume_decisions.find, volume_id, 60.0)
    assert (decisions.pool, decisions.project_id, decisions.request_id) == (None, "", "req-1")
    records.claim(volume_id, pool, request_id="req-2")
    refusal(records, volume_id)
    decisions = records.run(volume_decisions.find, volume_id, 60.0)
    assert (decisions.pool, decisions.project_id, decisions.of_cinder) == ("host@b#p", "demo", True)
    assert decisions.reason == "placed here by request req-2"


def test_an_unknown_name_is_not_found(records: Records) -> None:
    with pytest.raises(errors.NotFound, match="nothing could not be found"):
        records.run(volume_decisions.find, "nothing", 60.0)
