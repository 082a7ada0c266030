# SPDX-License-Identifier: Apache-2.0
"""The step of requests for volumes near an instance, whose host was found out before the request came here."""

from dataclasses import replace

from tonnage.scheduler.requests.placement_requests import LocalVolume
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec, UnplacedVolume


class InstanceLocality:
    """Adds the host of the instance to the request."""

    def volume_ids(self, volume: UnplacedVolume) -> list[str]:
        """Return no ids: an instance is not a volume."""
        return []

    def refine(self, spec: RequestSpec, volume: UnplacedVolume, lookup: Lookup) -> RequestSpec:
        """Add the host."""
        if not isinstance(volume, LocalVolume):
            return spec
        return replace(spec, request=replace(spec.request, locality=volume.locality))
