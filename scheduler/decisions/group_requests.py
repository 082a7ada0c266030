# SPDX-License-Identifier: Apache-2.0
"""From the message for several volumes at once to members that can be fitted jointly."""

from collections.abc import Sequence
from dataclasses import replace

from tonnage.capacity import errors
from tonnage.capacity.request import Request
from tonnage.filters import affinity
from tonnage.rpc.messages import CreateGroup, CreateVolume
from tonnage.scheduler import request_validation
from tonnage.scheduler.decisions import group_affinity, group_packing, request_spec
from tonnage.scheduler.decisions.lookups import Lookup
from tonnage.scheduler.decisions.request_spec import Resolved


def resolve(item: CreateGroup, lookup: Lookup) -> list[Resolved]:
    """Return the requests of a group's members.

    Raises :class:`~tonnage.capacity.errors.InvalidInput` for a group of none or of the same volume twice, and as
    :func:`tonnage.scheduler.decisions.request_spec.create` does.
    """
    request_validation.check_length("request_id", item.request_id, 64)
    ids = [message.volume_id for message in item.volumes]
    if not ids or len(set(ids)) != len(ids):
        raise errors.InvalidInput("a group takes at least one volume, and each has an id of its own")
    return [request_spec.create(replace(message, request_id=item.request_id), lookup) for message in item.volumes]


def members(item: CreateGroup, resolved: Sequence[Resolved]) -> list[group_packing.Member]:
    """Return the members with what their hints say of each other."""
    ids = [message.volume_id for message in item.volumes]
    same, different = (
        group_packing.bonds(ids, {one.volume_id: affinity.hinted_volumes(one.hints, hint) for one in item.volumes})
        for hint in (affinity.SAME_HOST, affinity.DIFFERENT_HOST)
    )
    mates = group_affinity.mates([one.group for one in resolved])
    return [
        group_packing.Member(
            request=_outside(one.request, item.volumes[number], ids),
            copied_gb=one.copied_gb,
            same=same[number],
            different=different[number],
            mates=mates[number],
            group=one.group,
        )
        for number, one in enumerate(resolved)
    ]


def _outside(request: Request, message: CreateVolume, ids: Sequence[str]) -> Request:
    """Return a member's request without hints that name nothing but other members: these are placed with it."""
    same, different = (
        all(volume_id in ids for volume_id in affinity.hinted_volumes(message.hints, hint))
        for hint in (affinity.SAME_HOST, affinity.DIFFERENT_HOST)
    )
    return replace(
        request,
        same_backends=None if same else request.same_backends,
        different_backends=None if different else request.different_backends,
    )
