# SPDX-License-Identifier: Apache-2.0
"""The use of a quota, for tests of its drift."""

from typing import Any

from tonnage.extensions.cinder.quota.quota_drift import ResourceUse
from tonnage.extensions.cinder.quota.quota_usage import Use


def quota_use(in_use: int = 2, reserved: int = 0, **values: Any) -> ResourceUse:
    """Return the use of volumes by the project p, without drift."""
    defaults: dict[str, Any] = {
        "project_id": "p",
        "resource": "volumes",
        "open_reservations": 0,
        "counter_in_use": 2,
        "counter_reserved": 0,
        "is_counted_anew": False,
    }
    return ResourceUse(use=Use(in_use, reserved), **(defaults | values))
