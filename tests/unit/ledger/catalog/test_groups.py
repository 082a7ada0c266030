# SPDX-License-Identifier: Apache-2.0
"""Groups: who sees them, which volumes join and leave, and how they end."""

from typing import Any

import pytest

from tests.unit.ledger.catalog.catalogues import group, row, volume_type
from tests.unit.ledger.records import Records, new_id
from tonnage.capacity import errors
from tonnage.ledger.catalog import groups, volumes
from tonnage.ledger.catalog.groups import Changes, Query
from tonnage.ledger.db.paging import Order, Page


@pytest.fixture
def type_id(records: Records) -> str:
    return volume_type(records)


@pytest.fixture
def group_id(records: Records, type_id: str) -> str:
    return group(records, type_id)


def test_a_group_shows_its_volumes_and_takes_its_zone_from_them(records: Records, type_id: str, group_id: str) -> None:
    empty = records.run(groups.get, group_id, "demo")
    assert (empty.volume_ids, empty.availability_zone, empty.status) == ((), None, "available")
    without_zone = records.volume(group_id=group_id)
    in_zone = records.volume(group_id=group_id, availability_zone="north")
    view = records.run(groups.get, group_id.upper(), None)
    assert set(view.volume_ids) == {without_zone, in_zone}
    assert view.availability_zone == "north"


@pytest.mark.parametrize("name", ["team", "0f4cbe3c-1a53-4c4c-9a54-3c8b7d6a2f10", ""])
def test_what_is_no_id_of_a_group_is_not_found(records: Records, group_id: str, name: str) -> None:
    with pytest.raises(errors.NotFound, match="could not be found"):
        records.run(groups.get, name, "demo")


def test_a_group_of_another_project_is_not_found(records: Records, group_id: str) -> None:
    with pytest.raises(errors.NotFound):
        records.run(groups.get, group_id, "other")
    with pytest.raises(errors.NotFound):
        records.run(groups.page, Query(project_id="other"), Page(10, marker=group_id))


def test_a_page_holds_the_groups_of_a_project_that_match(records: Records, type_id: str) -> None:
    ids = {name: group(records, type_id, name=name) for name in ("a", "b", "c")}
    group(records, type_id, project_id="other", name="a")
    by_name = (Order("name"),)

    def names(query: Query, page: Page) -> list[str | None]:
        return [view.row.name for view in records.run(groups.page, query, page)]

    assert names(Query(project_id="demo"), Page(2, order=by_name)) == ["a", "b"]
    for marker in (ids["b"], ids["b"].upper()):
        assert names(Query(project_id="demo"), Page(2, marker=marker, order=by_name)) == ["c"]
    assert names(Query(project_id=None, filters={"name": "a"}), Page(9, order=by_name)) == ["a", "a"]


def test_groups_are_counted_by_project_and_by_user(records: Records, group_id: str) -> None:
    assert records.run(groups.count, "demo") == 1
    assert records.run(groups.count, "demo", "user") == 1
    assert records.run(groups.count, "demo", "somebody") == 0
    assert records.run(groups.count, "other") == 0


def test_a_group_of_a_deleted_type_is_refused(records: Records, type_id: str) -> None:
    new_group = groups.NewGroup(
        project_id="demo", user_id="", name=None, description=None, group_type_id=new_id(), volume_type_ids=[type_id]
    )
    with pytest.raises(errors.NotFound, match="has just been deleted"):
        records.run(groups.create, new_group)


def test_volumes_join_and_leave_a_group(records: Records, type_id: str, group_id: str) -> None:
    pool = records.pool()
    member = records.volume(pool, volume_type_id=type_id, group_id=group_id)
    joining = records.volume(pool, volume_type_id=type_id)
    changes = Changes(name="others", description="text", add=[joining, joining], remove=[member])
    records.run(groups.update, group_id, "demo", changes)
    view = records.run(groups.get, group_id, "demo")
    assert (view.row.name, view.row.description, view.volume_ids) == ("others", "text", (joining,))
    assert row(records, member).group_id is None


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"project_id": "other"}, "volume cannot be found"),
        ({"group_id": "another"}, "it is already in group another"),
        ({"volume_type_id": None}, "it has no volume type"),
        ({"status": "error"}, "it is error: expected available, in-use"),
        ({"pool_id": None}, "it is available: expected available, in-use"),
    ],
)
def test_a_volume_that_cannot_join_is_refused_with_the_reason(
    records: Records, type_id: str, group_id: str, values: dict[str, Any], problem: str
) -> None:
    pool = records.pool()
    volume_id = records.volume(**{"pool_id": pool, "volume_type_id": type_id} | values)
    with pytest.raises(errors.InvalidInput, match=f"Cannot add volume {volume_id} .* because {problem}"):
        records.run(groups.update, group_id, "demo", Changes(add=[volume_id]))


def test_a_volume_of_a_type_that_the_group_does_not_allow_cannot_join(records: Records, group_id: str) -> None:
    volume_id = records.volume(records.pool(), volume_type_id=volume_type(records, "silver"))
    with pytest.raises(errors.InvalidInput, match="is not supported by the group"):
        records.run(groups.update, group_id, "demo", Changes(add=[volume_id]))


def test_the_volumes_of_a_group_are_on_one_backend(records: Records, type_id: str, group_id: str) -> None:
    first = records.volume(records.pool("host@b#p"), volume_type_id=type_id)
    same_backend = records.volume(records.pool("host@b#q"), volume_type_id=type_id)
    elsewhere = records.volume(records.pool("host@c#p"), volume_type_id=type_id)
    with pytest.raises(errors.InvalidInput, match="not on the backend that the group's volumes are on"):
        records.run(groups.update, group_id, "demo", Changes(add=[first, elsewhere]))
    records.run(groups.update, group_id, "demo", Changes(add=[first, same_backend]))
    # The last volumes leave in the same change, so the group has no backend any more.
    records.run(groups.update, group_id, "demo", Changes(add=[elsewhere], remove=[first, same_backend]))
    assert records.run(groups.get, group_id, "demo").volume_ids == (elsewhere,)


def test_a_volume_leaves_only_its_own_group_and_at_rest(records: Records, group_id: str) -> None:
    stranger, busy = records.volume(), records.volume(group_id=group_id, status="extending")
    with pytest.raises(errors.InvalidInput, match="because it is not in the group"):
        records.run(groups.update, group_id, "demo", Changes(remove=[stranger]))
    with pytest.raises(errors.InvalidInput, match="because it is extending"):
        records.run(groups.update, group_id, "demo", Changes(remove=[busy]))


def test_a_change_that_changes_nothing_or_contradicts_itself_is_refused(records: Records, group_id: str) -> None:
    member = records.volume(group_id=group_id)
    for changes in (Changes(), Changes(name="team"), Changes(add=[member])):
        with pytest.raises(errors.InvalidInput, match="change nothing"):
            records.run(groups.update, group_id, "demo", changes)
    with pytest.raises(errors.InvalidInput, match="both add_volumes and remove_volumes"):
        records.run(groups.update, group_id, "demo", Changes(add=[member], remove=[member]))


def test_only_an_available_group_can_be_changed(records: Records, group_id: str) -> None:
    records.run(groups.reset_status, group_id, "error")
    with pytest.raises(errors.Conflict, match="is error"):
        records.run(groups.update, group_id, "demo", Changes(name="new"))
    records.run(groups.reset_status, group_id, "available")
    records.run(groups.update, group_id, "demo", Changes(name="new"))


def test_a_status_of_a_group_that_ends_cannot_be_set(records: Records, group_id: str) -> None:
    with pytest.raises(errors.InvalidInput, match="status is 'deleting'"):
        records.run(groups.reset_status, group_id, "deleting")


def test_an_empty_group_is_deleted_at_once(records: Records, group_id: str) -> None:
    assert records.run(groups.begin_deletion, group_id, "demo", with_volumes=False) == []
    assert records.rows("SELECT * FROM groups") == records.rows("SELECT * FROM group_volume_types") == []
    with pytest.raises(errors.NotFound):
        records.run(groups.begin_deletion, group_id, "demo", with_volumes=False)


def test_a_group_with_volumes_ends_with_the_last_of_them(records: Records, group_id: str) -> None:
    members = sorted(records.volume(group_id=group_id) for _ in range(2))
    with pytest.raises(errors.Conflict, match="delete-volumes flag"):
        records.run(groups.begin_deletion, group_id, "demo", with_volumes=False)
    assert records.run(groups.begin_deletion, group_id, "demo", with_volumes=True) == members
    assert records.run(groups.get, group_id, "demo").status == "deleting"
    records.rows("UPDATE volumes SET status = 'error_deleting' WHERE id = :id", id=members[0])
    assert records.run(groups.get, group_id, "demo").status == "error_deleting"
    records.rows("DELETE FROM volumes")
    with pytest.raises(errors.NotFound):
        records.run(groups.get, group_id, "demo")


def test_a_group_with_a_busy_volume_is_not_deleted(records: Records, group_id: str) -> None:
    records.volume(group_id=group_id)
    records.volume(group_id=group_id, status="extending")
    with pytest.raises(errors.Conflict, match="is extending and cannot be deleted"):
        records.run(groups.begin_deletion, group_id, "demo", with_volumes=True)
    assert records.run(groups.get, group_id, "demo").status == "available"


def test_a_volume_in_a_group_does_not_leave_its_backend(records: Records, group_id: str) -> None:
    groups.require_free(records.run(volumes.get, records.volume(), None), "retyped")
    with pytest.raises(errors.Conflict, match=f"is in group {group_id} and cannot be retyped"):
        groups.require_free(records.run(volumes.get, records.volume(group_id=group_id), None), "retyped")
