# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests for groups and group types."""

from typing import Any

import pytest

from tonnage.api.http import body
from tonnage.api.schemas import group_bodies
from tonnage.api.schemas.group_bodies import GROUP_ACTIONS, UNSUPPORTED_ACTIONS
from tonnage.capacity import errors

GROUP = {"group_type": "g", "volume_types": ["a", "b"]}


def test_a_group_needs_its_type_and_the_types_of_its_volumes() -> None:
    group = body.convert({"group": GROUP}, group_bodies.CreateGroup).group
    assert (group.volume_types, group.name, group.availability_zone) == (["a", "b"], None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"volume_types": ["a", "b", "a"]}, "volume_types names a type twice"),
        ({"volume_types": []}, "expected array of length >= 1"),
        ({"volume_types": [""]}, "expected str of length >= 1"),
        ({"group_type": None}, "group_type: null: expected str"),
        ({"name": "n" * 256}, "expected str of length <= 255"),
        ({"source_group_id": "x"}, "unknown field source_group_id"),
    ],
)
def test_other_groups_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        body.convert({"group": GROUP | changes}, group_bodies.CreateGroup)


@pytest.mark.parametrize("changes", [{}, {"name": None, "add_volumes": None}])
def test_a_change_of_a_group_changes_something(changes: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput, match="at least one of name, description, add_volumes, remove_volumes"):
        body.convert({"group": changes}, group_bodies.UpdateGroup)


def test_an_empty_text_is_a_change() -> None:
    """It removes the description."""
    assert body.convert({"group": {"description": ""}}, group_bodies.UpdateGroup).group.description == ""


@pytest.mark.parametrize(
    ("text", "ids"),
    [(None, []), ("", []), (" , ,", []), ("A1", ["a1"]), (" a1 ,B2,", ["a1", "b2"]), ("a1,a1", ["a1", "a1"])],
)
def test_the_volumes_of_a_change_are_separated_by_commas(text: str | None, ids: list[str]) -> None:
    assert group_bodies.split_ids(text) == ids


@pytest.mark.parametrize(("arguments", "deletes"), [({}, False), ({"delete-volumes": "Yes"}, True)])
def test_the_volumes_of_a_deleted_group_stay_unless_the_body_says_otherwise(
    arguments: dict[str, Any], deletes: bool
) -> None:
    assert body.convert(arguments, group_bodies.DeleteGroup).delete_volumes is deletes


def test_a_flag_that_is_no_boolean_deletes_nothing() -> None:
    with pytest.raises(errors.InvalidInput, match="delete-volumes is neither true nor false"):
        body.convert({"delete-volumes": "perhaps"}, group_bodies.DeleteGroup)


def test_unsupported_actions_take_any_arguments_so_that_the_answer_is_501() -> None:
    assert set(UNSUPPORTED_ACTIONS) < GROUP_ACTIONS.keys()
    for name in UNSUPPORTED_ACTIONS:
        assert body.convert({"any": [1]}, GROUP_ACTIONS[name]) == {"any": [1]}


@pytest.mark.parametrize(("sent", "is_public"), [({}, True), ({"is_public": None}, True), ({"is_public": "no"}, False)])
def test_a_group_type_is_public_unless_it_is_told_to_be_private(sent: dict[str, Any], is_public: bool) -> None:
    group_type = body.convert({"group_type": {"name": " gold ", **sent}}, group_bodies.CreateGroupType).group_type
    assert (group_type.name, group_type.is_public) == ("gold", is_public)


@pytest.mark.parametrize("specs", [{}, {"a": "1", "b": "2"}, {"a": 1}, {"a\n": "1"}])
def test_one_spec_of_a_group_type_is_set_at_a_time(specs: dict[str, Any]) -> None:
    assert body.convert({"a": "1"}, group_bodies.OneSpec) == {"a": "1"}
    with pytest.raises(errors.InvalidInput):
        body.convert(specs, group_bodies.OneSpec)
