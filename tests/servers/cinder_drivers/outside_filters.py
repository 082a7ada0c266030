# SPDX-License-Identifier: Apache-2.0
"""A filter of another project for Cinder's scheduler, installed by the metadata beside this file."""

from typing import Any

from cinder.scheduler import filters


class MaintenanceFilter(filters.BaseBackendFilter):  # type: ignore[misc]
    """Refuses the pools of the backend b3."""

    def backend_passes(self, backend_state: Any, filter_properties: Any) -> bool:
        return "@b3#" not in backend_state.backend_id
