# SPDX-License-Identifier: Apache-2.0
"""The step of requests for clones: a clone is made on the backend of its source, as drivers copy within a backend."""

from dataclasses import replace

from tonnage.capacity import errors
from tonnage.capacity.pools.pool import backend_of
from tonnage.ledger.claims import clone_sources
from tonnage.ledger.inventory.pending_claims import SourceVolume
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec, UnplacedVolume


class CloneSource:
    """Confines a clone to the backend of its source."""

    def volume_ids(self, volume: UnplacedVolume) -> list[str]:
        """Return the id of the source."""
        return [volume.source_volume_id or ""]

    def refine(self, spec: RequestSpec, volume: UnplacedVolume, lookup: Lookup) -> RequestSpec:
        """Add the source and its backend.

        Raises :class:`~tonnage.capacity.errors.NotFound`, :class:`~tonnage.capacity.errors.Conflict` and
        :class:`~tonnage.capacity.errors.InvalidInput` for a source that cannot be cloned now, or not in that size.
        """
        source_id = volume.source_volume_id or ""
        source = lookup.volumes.get(source_id)
        if source is None or source.pool is None:
            raise errors.NotFound(f"volume {source_id}, which is to be cloned, could not be found in any pool")
        if source.status not in clone_sources.CLONEABLE:
            raise errors.Conflict(f"volume {source_id} is {source.status}: only an available volume can be cloned")
        if spec.target_size_gb < source.size_gb:
            raise errors.InvalidInput(
                f"size is {spec.target_size_gb} GiB: a clone of volume {source_id} takes at least its {source.size_gb}"
            )
        return replace(
            spec,
            request=replace(spec.request, backend=backend_of(source.pool.name), copies=True),
            source=SourceVolume(volume_id=source.id, pool_name=source.pool.name, size_gb=source.size_gb),
            source_pool_id=source.pool_id,
            copied_gb=source.size_gb,
            clone_of=source.id,
        )
