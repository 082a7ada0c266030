# SPDX-License-Identifier: Apache-2.0
"""Precedence and names of limits."""

import pytest

from tonnage.quotas import limits
from tonnage.quotas.limits import Holder, Item, LimitOwner, Limits, Resource, Scope

GIGABYTES = Item(Resource.GIGABYTES)
OF_TYPE = Item(Resource.GIGABYTES, "t1")
USER, PROJECT = LimitOwner(Holder.PROJECT, "p", "u"), LimitOwner(Holder.PROJECT, "p")
CLASS = LimitOwner(Holder.CLASS, "default")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({}, 1000),
        ({CLASS: 400}, 400),
        ({CLASS: 400, PROJECT: 70}, 70),
        ({CLASS: 400, PROJECT: 70, USER: 5}, 5),
        ({CLASS: 400, PROJECT: limits.UNLIMITED}, limits.UNLIMITED),
        ({LimitOwner(Holder.PROJECT, "other"): 1, LimitOwner(Holder.CLASS, "other"): 1}, 1000),
    ],
)
def test_the_most_specific_limit_applies(rows: dict[LimitOwner, int], expected: int) -> None:
    """Order: user in the project, project, quota class, option."""
    found = Limits({Resource.GIGABYTES: 1000}, {owner: {GIGABYTES: value} for owner, value in rows.items()})
    assert found.of_user("p", "u", GIGABYTES) == expected


def test_a_type_has_no_limit_unless_one_is_set() -> None:
    defaults = {Resource.GIGABYTES: 1000}
    assert Limits(defaults).of_project("p", OF_TYPE) == limits.UNLIMITED
    assert Limits(defaults, {CLASS: {OF_TYPE: 5}}).of_project("p", OF_TYPE) == 5


def test_a_users_usage_is_compared_with_the_users_own_limit_only() -> None:
    """The project's limit applies to all its users together."""
    found = Limits({Resource.GIGABYTES: 1000}, {PROJECT: {GIGABYTES: 70}})
    assert found.at(Scope("p", "u"), Resource.GIGABYTES) == limits.UNLIMITED
    assert found.at(Scope("p"), Resource.GIGABYTES) == 70


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gigabytes", GIGABYTES),
        ("per_volume_gigabytes", Item(Resource.PER_VOLUME_GIGABYTES)),
        ("gigabytes_fast", OF_TYPE),
        ("gigabytes_a_b", Item(Resource.GIGABYTES, "t2")),
        ("gigabytes_slow", None),
        ("backups_fast", None),
        ("gigabytes_", None),
        ("cores", None),
    ],
)
def test_items_have_the_names_of_clients(text: str, expected: Item | None) -> None:
    ids = {"fast": "t1", "a_b": "t2"}
    assert limits.parse(text, ids) == expected
    if expected is not None:
        assert limits.name(expected, {value: key for key, value in ids.items()}) == text


def test_every_item_has_a_unique_name() -> None:
    names = {limits.name(item, {"t1": "fast"}) for item in limits.items(["t1"])}
    assert len(names) == len(limits.items(["t1"]))
    assert {"volumes_fast", "gigabytes_fast", "snapshots_fast", "backup_gigabytes"} <= names
