# SPDX-License-Identifier: Apache-2.0
"""The members of a request for several volumes: who names whom, and which hints are left to the filters."""

from tonnage.capacity.request import Request
from tonnage.rpc.messages import CreateGroup, CreateVolume
from tonnage.scheduler.requests.request_spec import Group, RequestSpec
from tonnage.scheduler.steps import group_requests
from tonnage.scheduler.steps.group_packing import Member


def test_a_hint_to_a_member_applies_to_both_members() -> None:
    bound = group_requests.bound_members(["a", "b", "c"], {"a": ["b", "elsewhere", "a"], "c": []})
    assert bound == {0: frozenset({1}), 1: frozenset({0}), 2: frozenset()}


def members(*hints: dict[str, list[str]], groups: tuple[str | None, ...] = (None, None)) -> list[Member]:
    """Return the members ``a`` and ``b`` of a request with these hints, for these groups of the ledger."""
    volumes = [
        CreateVolume(request_id="r", volume_id=volume_id, size_gb=1, project_id="demo", hints=hint)
        for volume_id, hint in zip("ab", hints, strict=True)
    ]
    elsewhere = frozenset({"h@b"})
    specs = [
        RequestSpec(
            request=Request("r", 1, same_backends=elsewhere, different_backends=elsewhere),
            volume_id=volume.volume_id,
            target_size_gb=1,
            group=None if group is None else Group(id=group, backend=None, asks=()),
        )
        for volume, group in zip(volumes, groups, strict=True)
    ]
    return group_requests.members(CreateGroup(request_id="r", volumes=volumes), specs)


def test_hints_that_name_members_alone_are_met_by_the_packing() -> None:
    first, second = members({"same_host": ["b"]}, {"different_host": ["a"]})
    assert (first.same, second.same) == (frozenset({1}), frozenset({0}))
    assert (first.different, second.different) == (frozenset({1}), frozenset({0}))
    assert first.request.same_backends is None
    assert second.request.different_backends is None


def test_hints_that_name_other_volumes_are_left_to_the_filters() -> None:
    first, second = members({"same_host": ["b", "old"]}, {"different_host": ["old"]})
    assert first.same == frozenset({1})
    assert first.request.same_backends == {"h@b"}
    assert second.request.different_backends == {"h@b"}


def test_members_for_one_group_of_the_ledger_are_mates() -> None:
    assert [member.mates for member in members({}, {}, groups=("g", "g"))] == [frozenset({1}), frozenset({0})]
    assert [member.mates for member in members({}, {}, groups=("g", None))] == [frozenset(), frozenset()]
