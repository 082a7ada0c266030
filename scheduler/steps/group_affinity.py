# SPDX-License-Identifier: Apache-2.0
"""The step of requests for volumes of a group: all volumes of one group stay on one backend.

The first volume goes to a backend that all others can follow to: one that has a pool for each volume type of the group,
and satisfies the group's own type. The room there is not considered, as the number of volumes to come is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.ledger.claims import group_backends
from tonnage.ledger.claims.group_backends import GroupState
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler.requests.request_spec import Group, Lookup, RequestSpec, UnplacedVolume, with_type


class GroupMembership:
    """Adds the group, and the requirements of its backend, to the request."""

    def volume_ids(self, volume: UnplacedVolume) -> list[str]:
        """Return no ids: the row of the group has the backend of its volumes."""
        return []

    def refine(self, spec: RequestSpec, volume: UnplacedVolume, lookup: Lookup) -> RequestSpec:
        """Add the group.

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.Conflict` and
        :class:`~tonnage.capacity.errors.InvalidInput` for a group that the volume cannot be in.
        """
        group = _group(volume.group_id or "", volume.project_id, lookup)
        if isinstance(volume, CreateVolume):
            type_id = spec.volume_type_id
            if type_id is None or all(volume_type.id != type_id for volume_type in group.volume_types):
                raise errors.InvalidInput(
                    f"volume type is {volume.volume_type!r}: group {group.id} takes only volumes of type "
                    f"{' or '.join(volume_type.name for volume_type in group.volume_types)}; name one of these types"
                )
            zone = group.availability_zone or volume.availability_zone
            spec = replace(spec, request=replace(spec.request, availability_zone=zone))
        return replace(spec, group=_requirements(group))


@dataclass(slots=True)
class GroupAffinity:
    """Confines requests to the backend of their group, in the table that they are decided on.

    ``fitting`` are the filters that do not look at room.
    """

    pools: PoolTable
    fitting: FilterChain
    _placed: dict[str, str] = field(default_factory=dict)

    def confined(self, request: Request, group: Group) -> Request:
        """Return a request limited to the backends that its group may be on."""
        backend = self._placed.get(group.id, group.backend)
        backends = self._suitable(group.asks) if backend is None else frozenset({backend})
        return replace(request, backends=backends)

    def record_placement(self, group: Group, pool: str) -> None:
        """Note that a volume of a group goes to a pool."""
        self._placed[group.id] = backend_of(pool)

    def _suitable(self, asks: Sequence[Request]) -> frozenset[str]:
        suitable: set[str] | None = None
        for request in asks:
            rows = np.flatnonzero(self.fitting.candidates(self.pools, request)).tolist()
            backends = {backend_of(self.pools.names[row]) for row in rows}
            suitable = backends if suitable is None else suitable & backends
        return frozenset(suitable or ())


def _group(group_id: str, project_id: str, lookup: Lookup) -> GroupState:
    """Return the group that a volume is to be in. For a project the groups of others do not exist."""
    group = lookup.groups.get(group_id)
    if group is None or group.project_id != project_id:
        raise errors.NotFound(f"group {group_id} could not be found")
    if group.status != group_backends.AVAILABLE:
        raise errors.Conflict(f"group {group_id} is {group.status}: no volume can be made in it")
    return group


def _requirements(group: GroupState) -> Group:
    """Return the group with the requirements of its backend: those of its own type and of its volume types."""
    ask = Request("", 0, project_id=group.project_id, availability_zone=group.availability_zone)
    of_types = [with_type(ask, volume_type) for volume_type in group.volume_types]
    return Group(id=group.id, backend=group.backend, asks=(replace(ask, extra_specs=group.specs), *of_types))
