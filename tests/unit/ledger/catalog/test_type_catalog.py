# SPDX-License-Identifier: Apache-2.0
"""What the catalogues of volume types and of group types have in common."""

import pytest

from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import group_types, volume_types
from tonnage.ledger.catalog.type_catalog import Changes, NameTaken, Query, TypeCatalog
from tonnage.ledger.db.paging import Order, Page

Catalog = TypeCatalog[models.VolumeType] | TypeCatalog[models.GroupType]


@pytest.fixture(params=[volume_types.CATALOG, group_types.CATALOG], ids=["volume type", "group type"])
def catalog(request: pytest.FixtureRequest) -> Catalog:
    catalog: Catalog = request.param
    return catalog


def test_a_type_is_found_by_its_id_before_its_name(records: Records, catalog: Catalog) -> None:
    first = records.run(catalog.create, "gold", "text", True, {"a": "1"})
    namesake = records.run(catalog.create, first.id)
    assert records.run(catalog.find, "gold").id == records.run(catalog.find, first.id).id == first.id
    assert records.run(catalog.find, namesake.id).id == namesake.id
    for name in ("silver", ""):
        with pytest.raises(errors.NotFound, match="could not be found"):
            records.run(catalog.find, name)


def test_a_name_is_taken_once(records: Records, catalog: Catalog) -> None:
    records.run(catalog.create, "gold")
    silver = records.run(catalog.create, "silver")
    with pytest.raises(NameTaken, match="gold already exists"):
        records.run(catalog.create, "gold")
    with pytest.raises(NameTaken, match="gold already exists"):
        records.run(catalog.update, silver.id, Changes(name="gold"))


def test_an_update_changes_the_named_fields_alone(records: Records, catalog: Catalog) -> None:
    type_row = records.run(catalog.create, "gold", "text")
    changed = records.run(catalog.update, type_row.id, Changes(is_public=False))
    assert (changed.name, changed.description, changed.is_public) == ("gold", "text", False)
    changed = records.run(catalog.update, type_row.id, Changes(name="new", description=""))
    assert (changed.name, changed.description, changed.is_public) == ("new", "", False)


def test_a_private_type_is_hidden_from_projects(records: Records, catalog: Catalog) -> None:
    private = records.run(catalog.create, "private", None, False)
    with pytest.raises(errors.NotFound):
        records.run(catalog.get, private.id, "demo")
    with pytest.raises(errors.NotFound):
        records.run(catalog.page, Query(), Page(9, marker=private.id), "demo")
    assert records.run(catalog.get, private.id).id == private.id


def test_a_page_shows_public_or_private_types_in_order(records: Records, catalog: Catalog) -> None:
    for name, is_public in (("b", True), ("a", True), ("c", False)):
        records.run(catalog.create, name, None, is_public)

    def names(query: Query, project_id: str | None = None) -> list[str]:
        page = records.run(catalog.page, query, Page(9, order=(Order("name"),)), project_id)
        return [type_row.name for type_row in page if type_row.name != volume_types.DEFAULT]

    assert names(Query()) == ["a", "b", "c"]
    assert names(Query(), "demo") == ["a", "b"]
    assert names(Query(is_public=False)) == ["c"]
    assert names(Query(is_public=True)) == ["a", "b"]


def test_specs_are_merged_and_removed_one_by_one(records: Records, catalog: Catalog) -> None:
    type_id = records.run(catalog.create, "gold", None, True, {"a": "1", "b": "2"}).id
    assert records.run(catalog.set_specs, type_id, {"b": "3", "c": "4"}) == {"a": "1", "b": "3", "c": "4"}
    records.run(catalog.unset_spec, type_id, "a")
    type_row = records.run(catalog.get, type_id)
    assert catalog.specs_of(type_row) == {"b": "3", "c": "4"}
    assert catalog.require_spec(type_row, "c") == "4"
    with pytest.raises(errors.NotFound, match="with key a"):
        records.run(catalog.unset_spec, type_id, "a")


def test_a_deleted_type_is_gone(records: Records, catalog: Catalog) -> None:
    type_id = records.run(catalog.create, "gold", None, True, {"a": "1"}).id
    records.run(catalog.delete, type_id)
    for action in (catalog.get, catalog.lock, catalog.delete):
        with pytest.raises(errors.NotFound):
            records.run(action, type_id)
    assert records.rows("SELECT * FROM volume_type_extra_specs") == []
