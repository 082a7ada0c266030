# SPDX-License-Identifier: Apache-2.0
"""Hints that name volumes, beside or away from which one shall be, and what filters that go by them share."""

import abc
from collections.abc import Hashable, Mapping
from typing import ClassVar

import numpy as np
from oslo_utils import uuidutils

from tonnage.capacity.decision import Rejection
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters.base import Filter, Mask

#: One id of a volume or a list of them.
SAME_HOST = "same_host"
DIFFERENT_HOST = "different_host"


def named(hints: Mapping[str, object], hint: str) -> list[str]:
    """Return the volumes that a hint names, whether there are any of these ids or not."""
    return [each for each in _listed(hints, hint) if isinstance(each, str)]


def _listed(hints: Mapping[str, object], hint: str) -> list[object]:
    value = hints.get(hint, [])
    return value if isinstance(value, list) else [value]


def _no_ids(request: Request, hint: str) -> list[object]:
    """Return what a hint has that is no id: rather no pool than one that was not meant."""
    return [each for each in _listed(request.hints, hint) if not uuidutils.is_uuid_like(each)]


class AffinityFilter(Filter):
    """A filter that goes by a hint which names volumes. A hint with anything but ids in it refuses every pool.

    Where the volumes are is in the request.
    """

    hint: ClassVar[str]

    def accepts(self, pools: PoolTable, request: Request) -> Mask:
        """Compare the backends."""
        if _no_ids(request, self.hint):
            return np.zeros(len(pools), dtype=np.bool_)
        backends = self.backends(request)
        return np.ones(len(pools), dtype=np.bool_) if backends is None else self.judge(pools, backends)

    def kept_by(self, request: Request) -> tuple[Hashable, ...] | None:
        """Keep what is true of every request without the hint."""
        return () if self.backends(request) is None and self.hint not in request.hints else None

    def reason(self, pool: Pool, request: Request) -> Rejection:
        """Name what is no id, or the backends."""
        wrong = [repr(each)[:80] for each in _no_ids(request, self.hint)[:1]]
        if not wrong:
            return self.misplaced(pool, request)
        return Rejection(
            "bad_hint",
            f"cannot be judged by the hint {self.hint}: {wrong[0]} is no id of a volume",
            {"named": wrong[0]},
        )

    @abc.abstractmethod
    def backends(self, request: Request) -> frozenset[str] | None:
        """Return where the volumes are that the hint names, None where it names none."""

    @abc.abstractmethod
    def judge(self, pools: PoolTable, backends: frozenset[str]) -> Mask:
        """Tell which pools will do."""

    @abc.abstractmethod
    def misplaced(self, pool: Pool, request: Request) -> Rejection:
        """Name the backends."""
