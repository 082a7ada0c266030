# SPDX-License-Identifier: Apache-2.0
"""Filters that place a volume on the same backend as other volumes, or on a different one.

The scheduler hints ``same_host`` and ``different_host`` name the other volumes.
"""

import abc
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from oslo_utils import uuidutils

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask

#: Names of the hints. The value of a hint is one volume id or a list of volume ids.
SAME_HOST = "same_host"
DIFFERENT_HOST = "different_host"


def hinted_volumes(hints: Mapping[str, object], hint: str) -> list[str]:
    """Return the volume ids in a hint, including ids of volumes that do not exist."""
    return [value for value in _hint_values(hints, hint) if isinstance(value, str)]


def _hint_values(hints: Mapping[str, object], hint: str) -> list[object]:
    value = hints.get(hint, [])
    return value if isinstance(value, list) else [value]


def _invalid_ids(request: Request, hint: str) -> list[object]:
    """Return the values of a hint that are not volume ids."""
    return [value for value in _hint_values(request.hints, hint) if not uuidutils.is_uuid_like(value)]


class AffinityFilter(Filter):
    """Base class of filters that compare a pool's backend with the backends of the hinted volumes.

    The request carries these backends. A hint with an invalid volume id refuses every pool: refusing the request is
    safer than placing the volume on a backend that the client did not mean.
    """

    is_categorical = True
    hint: ClassVar[str]

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        if _invalid_ids(request, self.hint):
            return np.zeros(len(pools), dtype=np.bool_)
        backends = self.backends(request)
        return np.ones(len(pools), dtype=np.bool_) if backends is None else self.match(pools, backends)

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name the first invalid volume id of the hint, or the backends."""
        wrong = [repr(value)[:80] for value in _invalid_ids(request, self.hint)[:1]]
        if not wrong:
            return self.backend_rejection(pool, request)
        return Rejection(
            "bad_hint",
            f"cannot be judged by the hint {self.hint}: {wrong[0]} is no id of a volume",
            {"named": wrong[0]},
        )

    @abc.abstractmethod
    def backends(self, request: Request) -> frozenset[str] | None:
        """Return the backends of the hinted volumes, None if the request has no such hint."""

    @abc.abstractmethod
    def match(self, pools: PoolTable, backends: frozenset[str]) -> Mask:
        """Return for each pool whether its backend satisfies the hint."""

    @abc.abstractmethod
    def backend_rejection(self, pool: Pool, request: Request) -> Rejection:
        """Return the rejection of a pool on an unsuitable backend."""


class SameBackendFilter(AffinityFilter):
    """Accepts pools on the backends of the volumes in the hint ``same_host``, and every pool without the hint."""

    reads_figures = False
    trigger_fields = ("hints", "same_backends")
    hint = SAME_HOST

    def backends(self, request: Request) -> frozenset[str] | None:
        """Return the backends that the volume has to share."""
        return request.same_backends

    def match(self, pools: PoolTable, backends: frozenset[str]) -> Mask:
        return pools.on_backends(backends)

    def backend_rejection(self, pool: Pool, request: Request) -> Rejection:
        """Name the backends of the hinted volumes."""
        backend_names = ", ".join(sorted(request.same_backends or ())) or "none that has one of those volumes"
        return Rejection(
            "other_backend",
            f"is not on the backend that the hint same_host asks for ({backend_names})",
            {"wanted": backend_names},
        )


class DifferentBackendFilter(AffinityFilter):
    """Refuses pools on the backends of the volumes in the hint ``different_host``."""

    reads_figures = False
    trigger_fields = ("hints", "different_backends")
    hint = DIFFERENT_HOST

    def backends(self, request: Request) -> frozenset[str] | None:
        """Return the backends that the volume has to avoid."""
        return request.different_backends

    def match(self, pools: PoolTable, backends: frozenset[str]) -> Mask:
        """Accept pools on all other backends."""
        return ~pools.on_backends(backends)

    def backend_rejection(self, pool: Pool, request: Request) -> Rejection:
        """Name the backend, which a hinted volume uses."""
        return Rejection(
            "same_backend",
            f"is on {pool.backend}, which already holds a volume named by the hint different_host",
            {"backend": pool.backend},
        )
