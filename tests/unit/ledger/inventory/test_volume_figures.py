# SPDX-License-Identifier: Apache-2.0
"""Volumes, types and claims as overviews list them."""

import datetime

import pytest

from tests.unit.ledger.catalog.catalogues import volume_type
from tests.unit.ledger.records import Records
from tonnage.ledger.inventory import volume_figures
from tonnage.ledger.inventory.volume_figures import VolumeFilter
from tonnage.ledger.models import claim_verbs

FIRST, SECOND, THIRD = (datetime.datetime.fromisoformat(f"2026-01-0{day}") for day in (1, 2, 3))


def names(records: Records, *, largest_first: bool = False, **conditions: str) -> list[str | None]:
    """Return the names of the volumes that match, in order; their number is checked too."""
    volume_filter = VolumeFilter(**conditions)
    rows = records.run(
        lambda session: list(volume_figures.volumes(session, volume_filter, largest_first=largest_first))
    )
    assert records.run(volume_figures.count, volume_filter) == len(rows)
    return [row.name for row in rows]


@pytest.fixture
def gold(records: Records) -> str:
    """A type; three volumes are there, of different ages and sizes."""
    gold = volume_type(records)
    records.volume(records.pool("host@b#q"), name="second", size_gb=1, created_at=SECOND, status="error")
    records.volume(records.pool("host@b#p"), name="first", size_gb=5, created_at=FIRST, volume_type_id=gold)
    records.volume(name="third", size_gb=5, created_at=THIRD, project_id="other")
    return gold


def test_volumes_are_listed_by_age_or_by_size(records: Records, gold: str) -> None:
    assert names(records) == ["first", "second", "third"]
    assert names(records, largest_first=True) == ["first", "third", "second"]


@pytest.mark.parametrize(
    ("conditions", "matches"),
    [
        ({"project_id": "other"}, ["third"]),
        ({"status": "error"}, ["second"]),
        ({"volume_type": "gold"}, ["first"]),
        ({"pool": "host@b#q"}, ["second"]),
        ({"pool": "host@b"}, ["first", "second"]),
        ({"pool": "host@b", "status": "available"}, ["first"]),
        ({"pool": "host"}, []),
    ],
)
def test_all_conditions_of_a_filter_hold(
    records: Records, gold: str, conditions: dict[str, str], matches: list[str]
) -> None:
    assert names(records, **conditions) == matches


def test_a_volume_has_the_names_of_its_pool_and_type(records: Records, gold: str) -> None:
    first, _, third = records.run(lambda session: list(volume_figures.volumes(session, VolumeFilter())))
    assert (first.volume_type, first.pool, first.size_gb, first.created_at) == ("gold", "host@b#p", 5, FIRST)
    assert (third.volume_type, third.pool) == (None, None)


def test_types_are_listed_with_their_usage(records: Records, gold: str) -> None:
    volume_type(records, "silver", is_public=False)
    records.volume(size_gb=2, volume_type_id=gold)
    types = {row.name: row for row in records.run(volume_figures.types)}
    assert types["gold"][2:] == (True, 2, 7)
    assert types["silver"][2:] == (False, 0, 0)
    assert list(types) == sorted(types)


def test_claims_are_open_or_in_flight_or_of_a_volume(records: Records) -> None:
    pool, elsewhere = records.pool("host@b#p"), records.pool("host@b#q")
    volume_id = records.volume(pool)
    settled = records.claim(volume_id, pool, created_at=FIRST, request_id="req-1")
    uncontained = records.claim(volume_id, pool, contained=False, created_at=SECOND)
    pending = records.claim(volume_id, elsewhere, state="pending", verb=claim_verbs.MIGRATE, created_at=THIRD)
    abandoned = records.claim(records.volume(), pool, state="abandoned", created_at=FIRST)

    def ids(claims: list[volume_figures.ClaimFigures]) -> list[str]:
        return [claim.id for claim in claims]

    assert ids(records.run(volume_figures.open_claims, 60.0)) == [abandoned, pending]
    assert ids(records.run(volume_figures.claims_in_flight, "host@b#p", 60.0)) == [abandoned, uncontained]
    claims = records.run(volume_figures.claims_of, volume_id, 60.0)
    assert ids(claims) == [settled, uncontained, pending]
    assert (claims[0].request_id, claims[2].pool, claims[2].verb) == ("req-1", "host@b#q", "migrate")
    assert claims[0].age - claims[1].age == pytest.approx(24 * 3600, abs=5)
