# SPDX-License-Identifier: Apache-2.0
"""The step of requests for several volumes at once: the members that are packed together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tonnage.capacity.request import Request
from tonnage.filters import affinity
from tonnage.rpc.messages import CreateGroup, CreateVolume
from tonnage.scheduler.requests.request_spec import Group, RequestSpec
from tonnage.scheduler.steps.group_packing import Member


def members(item: CreateGroup, specs: Sequence[RequestSpec]) -> list[Member]:
    """Return the members of a request, with the indexes of other members that their hints name."""
    ids = [message.volume_id for message in item.volumes]
    same, different = (
        bound_members(ids, {volume.volume_id: affinity.hinted_volumes(volume.hints, hint) for volume in item.volumes})
        for hint in (affinity.SAME_HOST, affinity.DIFFERENT_HOST)
    )
    mates = _mates([spec.group for spec in specs])
    return [
        Member(
            request=_without_members(spec.request, item.volumes[number], ids),
            copied_gb=spec.copied_gb,
            same=same[number],
            different=different[number],
            mates=mates[number],
            group=spec.group,
        )
        for number, spec in enumerate(specs)
    ]


def bound_members(ids: Sequence[str], named: Mapping[str, Sequence[str]]) -> dict[int, frozenset[int]]:
    """Map the index of each member to the indexes of the members that it names or that name it.

    ``named`` maps each volume id to the volume ids in its hint.
    """
    numbers = {volume_id: number for number, volume_id in enumerate(ids)}
    partners: dict[int, set[int]] = {number: set() for number in range(len(ids))}
    for volume_id, hinted_ids in named.items():
        for hinted_id in hinted_ids:
            if hinted_id in numbers and hinted_id != volume_id:
                partners[numbers[volume_id]].add(numbers[hinted_id])
                partners[numbers[hinted_id]].add(numbers[volume_id])
    return {number: frozenset(indexes) for number, indexes in partners.items()}


def _mates(groups: Sequence[Group | None]) -> list[frozenset[int]]:
    """Return for each member the indexes of the others that are for the same group of the ledger."""
    numbers_by_group: dict[str, set[int]] = {}
    for number, group in enumerate(groups):
        if group is not None:
            numbers_by_group.setdefault(group.id, set()).add(number)
    return [
        frozenset() if group is None else frozenset(numbers_by_group[group.id] - {number})
        for number, group in enumerate(groups)
    ]


def _without_members(request: Request, message: CreateVolume, ids: Sequence[str]) -> Request:
    """Return a member's request without hints that name other members only: these are placed with it."""
    same, different = (
        all(volume_id in ids for volume_id in affinity.hinted_volumes(message.hints, hint))
        for hint in (affinity.SAME_HOST, affinity.DIFFERENT_HOST)
    )
    return replace(
        request,
        same_backends=None if same else request.same_backends,
        different_backends=None if different else request.different_backends,
    )
