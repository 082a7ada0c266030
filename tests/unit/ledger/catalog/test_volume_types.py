# SPDX-License-Identifier: Apache-2.0
"""Volume types: extra specs, the reading of specs for decisions, and what keeps a type in the catalogue."""

import pytest

from tests.unit.ledger.catalog.catalogues import group, volume_type
from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import type_access, volume_types
from tonnage.ledger.catalog.type_catalog import Query
from tonnage.ledger.db.paging import Order, Page
from tonnage.ledger.models import claim_verbs

PROVISIONING = "provisioning:type"


def test_an_invalid_extra_spec_is_refused(records: Records) -> None:
    type_id = volume_type(records)
    with pytest.raises(errors.InvalidInput):
        records.run(volume_types.set_specs, type_id, {PROVISIONING: "medium"})
    with pytest.raises(errors.InvalidInput):
        records.run(volume_types.create, "silver", None, True, {PROVISIONING: "medium"})
    assert records.run(volume_types.set_specs, type_id, {PROVISIONING: "thin"}) == {PROVISIONING: "thin"}


def test_a_page_is_filtered_by_name_and_by_all_extra_specs(records: Records) -> None:
    volume_type(records, "a", tier="1", use="db")
    volume_type(records, "b", tier="1")

    def names(**filters: str) -> list[str]:
        page = records.run(volume_types.page, Query(filters=filters), Page(9, order=(Order("name"),)))
        return [type_row.name for type_row in page]

    assert names(extra_specs="{'tier': '1'}") == ["a", "b"]
    assert names(extra_specs="{'tier': '1', 'use': 'db'}") == ["a"]
    assert names(name="b", extra_specs="{'tier': '1'}") == ["b"]
    assert names(name="b", extra_specs="{'use': 'db'}") == []


@pytest.mark.parametrize(
    ("zone", "matching"),
    [
        ("north", ["a", "b"]),
        ("south", ["b"]),
        ("far east", ["c"]),
        ("East", []),
        ("nor", []),
        ("th", []),
        ("%", []),
        ("", []),
    ],
)
def test_a_page_is_filtered_by_one_of_the_zones(records: Records, zone: str, matching: list[str]) -> None:
    for name, listed in (("a", "north"), ("b", "south , north"), ("c", "west,far east")):
        volume_type(records, name, **{"RESKEY:availability_zones": listed})
    query = Query(filters={"extra_specs": f"{{'RESKEY:availability_zones': '{zone}'}}"})
    page = records.run(volume_types.page, query, Page(9, order=(Order("name"),)))
    assert [type_row.name for type_row in page] == matching


def test_the_sizes_of_a_type_are_compared_with_those_that_it_has(records: Records) -> None:
    type_id = volume_type(records, **{"provisioning:min_vol_size": "4"})
    with pytest.raises(errors.InvalidInput, match="no volume has such a size"):
        records.run(volume_types.set_specs, type_id, {"provisioning:max_vol_size": "3"})
    assert records.run(volume_types.get, type_id).extra_specs == {"provisioning:min_vol_size": "4"}
    records.run(volume_types.set_specs, type_id, {"provisioning:max_vol_size": "4"})


def test_names_are_those_of_the_types_that_a_project_sees(records: Records) -> None:
    public, private = volume_type(records, "public"), volume_type(records, "private", is_public=False)
    records.run(type_access.add, private, "demo")

    def names(project_id: str | None) -> list[tuple[str, str]]:
        visible = records.run(volume_types.names, project_id).items()
        return [(type_id, name) for type_id, name in visible if name != volume_types.DEFAULT]

    assert names(None) == names("demo") == [(private, "private"), (public, "public")]
    assert names("other") == [(public, "public")]


def test_specs_are_read_by_id_and_by_name(records: Records) -> None:
    gold, plain = volume_type(records, "gold", tier="1", use="db"), volume_type(records, "plain")
    records.add(models.QosSpecs(id="qos", name="fast", consumer="both", specs={"iops": "5"}))
    records.add(models.TypeQos(volume_type_id=gold, qos_specs_id="qos"))
    specs = records.run(volume_types.read_specs, [gold, "plain", "missing"])
    assert specs.keys() == {gold, "gold", plain, "plain"}
    assert specs["gold"] == specs[gold]
    assert (specs[gold].extra_specs, specs[gold].qos_specs) == ({"tier": "1", "use": "db"}, {"iops": "5"})
    assert (specs["plain"].id, specs["plain"].extra_specs, specs["plain"].qos_specs) == (plain, {}, {})


def test_an_id_wins_over_an_equal_name(records: Records) -> None:
    gold = volume_type(records, "gold")
    namesake = volume_type(records, gold)
    specs = records.run(volume_types.read_specs, [gold])
    assert specs[gold].id == gold
    assert specs[namesake].id == namesake


def test_a_type_in_use_is_not_deleted(records: Records) -> None:
    pool = records.pool()
    of_volume, of_retype, of_group = (volume_type(records, name) for name in ("volume", "retype", "group"))
    records.volume(pool, volume_type_id=of_volume)
    records.claim(records.volume(pool), pool, verb=claim_verbs.MIGRATE, state="pending", volume_type_id=of_retype)
    group(records, of_group)
    for type_id, problem in (
        (of_volume, r"in use by 1 volume\(s\)"),
        (of_retype, "in use by a volume that is being retyped"),
        (of_group, r"in use by 1 group\(s\)"),
    ):
        with pytest.raises(errors.Conflict, match=problem):
            records.run(volume_types.delete, type_id)
    records.rows("UPDATE claims SET state = 'confirmed'")
    records.run(volume_types.delete, of_retype)


def test_what_belongs_to_a_type_is_deleted_with_it(records: Records) -> None:
    type_id = volume_type(records, is_public=False, tier="1")
    records.run(type_access.add, type_id, "demo")
    records.add(
        models.QuotaLimit(holder="project", name="demo", resource="volumes", volume_type_id=type_id, hard_limit=3)
    )
    records.run(volume_types.delete, type_id)
    for table in ("volume_type_access", "volume_type_extra_specs", "quota_limits"):
        assert records.rows(f"SELECT * FROM {table}") == []
