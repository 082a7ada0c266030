# SPDX-License-Identifier: Apache-2.0
"""The step of requests whose hints name volumes to share a backend with, or to keep apart from.

Filters read nothing from the ledger, so the backends of those volumes become part of the request.
"""

from collections.abc import Sequence
from dataclasses import replace

from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.request import Request
from tonnage.filters import affinity
from tonnage.ledger import models
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec, UnplacedVolume, WaitsForVolume


class AffinityHints:
    """Finds the backends of the volumes that the hints ``same_host`` and ``different_host`` name."""

    def volume_ids(self, volume: UnplacedVolume) -> list[str]:
        """Return the ids that the hints name."""
        hints = (affinity.SAME_HOST, affinity.DIFFERENT_HOST)
        return [volume_id for hint in hints for volume_id in affinity.hinted_volumes(volume.hints, hint)]

    def refine(self, spec: RequestSpec, volume: UnplacedVolume, lookup: Lookup) -> RequestSpec:
        """Add the backends of the named volumes.

        Raises :class:`~tonnage.scheduler.requests.request_spec.WaitsForVolume` for a volume that is tried again and
        has to wait for a volume that its hints name.
        """
        request = with_backends(spec.request, volume, lookup)
        if request is spec.request:
            return spec
        spec = replace(spec, request=request)
        return self._in_order(spec, volume, lookup) if isinstance(volume, models.Volume) else spec

    @staticmethod
    def _in_order(spec: RequestSpec, volume: models.Volume, lookup: Lookup) -> RequestSpec:
        """Bind a volume that is tried again to the volumes that its hints name, which may be tried again as well."""
        order = lookup.affinity_order
        predecessor = order.predecessor(volume)
        if predecessor is not None:
            raise WaitsForVolume(f"volume {volume.id} waits until volume {predecessor} has a pool")
        if order.waiting_companions(volume):
            # They follow to the backend of this one.
            spec = replace(spec, request=replace(spec.request, same_backends=None))
        return replace(spec, waits_for=order.waits_for(volume), hint_targets=order.hint_targets(volume))


def with_backends(request: Request, volume: UnplacedVolume | models.Volume, lookup: Lookup) -> Request:
    """Return the request with the backends of the volumes that the hints of a volume name.

    A named volume that is being moved is kept apart from its new backend too.
    """
    same = affinity.hinted_volumes(volume.hints, affinity.SAME_HOST)
    different = affinity.hinted_volumes(volume.hints, affinity.DIFFERENT_HOST)
    if not same and not different:
        return request
    together, apart = (_own(ids, volume.project_id, lookup) for ids in (same, different))
    coming = {backend_of(pool) for named in apart for pool in lookup.copies.get(named.id, ())}
    return replace(
        request,
        same_backends=_backends(together) if same else None,
        different_backends=_backends(apart) | coming if different else None,
    )


def _own(volume_ids: Sequence[str], project_id: str, lookup: Lookup) -> list[models.Volume]:
    """Return volumes. Those of other projects are left out: no project learns where they are."""
    named_volumes = (lookup.volumes.get(volume_id) for volume_id in volume_ids)
    return [volume for volume in named_volumes if volume is not None and volume.project_id == project_id]


def _backends(volumes: Sequence[models.Volume]) -> frozenset[str]:
    return frozenset(backend_of(volume.pool.name) for volume in volumes if volume.pool is not None)
