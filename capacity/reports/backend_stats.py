# SPDX-License-Identifier: Apache-2.0
"""The stats of a whole backend, as Cinder's drivers send them, and the pools in them.

Tonnage's drivers report a list of pools. A driver of Cinder reports one mapping: fields of the backend, and usually a
list of its pools under ``pools``. A backend without that list is its own pool.
"""

from collections.abc import Mapping
from typing import Any

from tonnage.capacity.pool_stats import BACKEND_STATE

#: Cinder's name for the only pool of a backend that has no ``volume_backend_name`` either.
DEFAULT_POOL = "_pool0"

#: The fields of the backend that a pool inherits if its own are missing or empty.
_INHERITED = ("volume_backend_name", "storage_protocol", "vendor_name", "driver_version")

#: The fields of the backend that a pool inherits only if it has none of that name: a null function is none. Cinder's
#: scheduler ignores the state of a backend with a list of pools.
_DEFAULTS = ("filter_function", "goodness_function", BACKEND_STATE)


def pools_of(report: object) -> Any:
    """Return the list of pools in a report: the list itself, or the pools of a backend's stats. Never raises.

    A value that is neither is returned as it is; the validation refuses it.
    """
    if not isinstance(report, Mapping):
        return report
    pools = report.get("pools")
    if pools is None:
        name = report.get("volume_backend_name") or DEFAULT_POOL
        return [{"pool_name": name} | {key: value for key, value in report.items() if key != "pools"}]
    if not isinstance(pools, (list, tuple)):
        return pools
    return [_completed(pool, report) if isinstance(pool, Mapping) else pool for pool in pools]


def _completed(pool: Mapping[str, Any], backend: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pool with the fields that it inherits from its backend, as Cinder's scheduler completes it."""
    completed = dict(pool)
    name = completed.get("pool_name")
    if isinstance(name, int) and not isinstance(name, bool):
        completed["pool_name"] = str(name)
    for key in _INHERITED:
        if not completed.get(key) and backend.get(key):
            completed[key] = backend[key]
    for key in _DEFAULTS:
        if key in backend:
            completed.setdefault(key, backend[key])
    return completed
