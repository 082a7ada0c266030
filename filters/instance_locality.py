# SPDX-License-Identifier: Apache-2.0
"""Filter that places a volume on the host of an instance."""

from collections.abc import Mapping

import numpy as np
from oslo_utils import uuidutils

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import LOCAL_TO_INSTANCE, Locality, Request
from tonnage.filters.base import Filter, Mask


def hinted_instance(hints: Mapping[str, object]) -> str | None:
    """Return the instance id in the hints, None if there is no hint or its value is not an id."""
    value = hints.get(LOCAL_TO_INSTANCE)
    return value if isinstance(value, str) and uuidutils.is_uuid_like(value) else None


class InstanceLocalityFilter(Filter):
    """Accepts pools on the host of the instance in the hint ``local_to_instance``.

    The scheduler asks the compute service for this host before the filters run. A request with the hint, but without an
    answer of the compute service, is refused.
    """

    is_categorical = True
    reads_figures = False
    trigger_fields = ("hints",)

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the hosts of all pools."""
        return self.narrow(pools, request, np.ones(len(pools), dtype=np.bool_))

    def narrow(self, pools: PoolTable, request: Request, still_in: Mask) -> Mask:
        """Compare the hosts of the remaining pools."""
        if not request.hints.get(LOCAL_TO_INSTANCE):
            return np.ones(len(pools), dtype=np.bool_)
        local = np.zeros(len(pools), dtype=np.bool_)
        host = _locality(request).host
        if host is not None:
            rows = np.flatnonzero(still_in)
            local[rows] = [_host(pools.names[row]) == host for row in rows.tolist()]
        return local

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the pool's host, or the reason why the instance's host is unknown.

        The message does not name the instance's host: Nova shows it to administrators only, and users read refusals.
        """
        instance, locality = str(request.hints.get(LOCAL_TO_INSTANCE))[:80], _locality(request)
        if locality.host is None:
            problem = f"cannot be chosen by the hint {LOCAL_TO_INSTANCE}: {locality.problem}"
            return Rejection(locality.code, problem, {"instance": instance})
        host = _host(pool.name)
        return Rejection(
            "other_host",
            f"is on host {host}; instance {instance}, which the hint {LOCAL_TO_INSTANCE} names, runs on another",
            {"instance": instance, "host": host},
        )


def _locality(request: Request) -> Locality:
    """Return the host of the instance in the hint, or the reason why it is unknown."""
    instance = hinted_instance(request.hints)
    if instance is None:
        value = repr(request.hints[LOCAL_TO_INSTANCE])[:80]
        return Locality(code="bad_hint", problem=f"{value} is no id of an instance")
    if request.locality is not None:
        return request.locality
    problem = f"no compute service (Nova) is configured that knows where instance {instance} runs"
    return Locality(code="no_compute_service", problem=problem)


def _host(pool: str) -> str:
    return backend_of(pool).partition("@")[0]
