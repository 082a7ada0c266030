# SPDX-License-Identifier: Apache-2.0
"""The cache of the pool list as text of the REST API, see :mod:`tonnage.rpc.clients.pool_list_text`."""

import functools
import itertools
import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.request import Request
from tonnage.rpc import packed_reports
from tonnage.rpc.clients import pool_list_text
from tonnage.rpc.messages import PoolListQuery, PoolListText, PoolView
from tonnage.scheduler.cache import pool_figures
from tonnage.scheduler.simulation import pool_views
from tonnage.scheduler.simulation.pool_views import PoolsSnapshot


class PoolListTextCache:
    """Writes pools as text. The text of all pools in detail is kept until something in it changes."""

    def __init__(self) -> None:
        self._kept = {factors: _CachedText(factors) for factors in (False, True)}

    def selected(self, snapshot: PoolsSnapshot, query: PoolListQuery, probe: Request | None) -> list[PoolListText]:
        """Return the pools that a query selects, by name, and that meet the requirements of ``probe``, if given."""
        all_of_them = query.name is None and probe is None and not query.capabilities and query.limit is None
        if all_of_them and query.detail:
            return self._kept[query.factors].parts(snapshot)
        if all_of_them:
            bodies = [{"name": name} for name in sorted(snapshot.stats)]
        else:
            pools = [pool for pool in pool_views.selected(snapshot, query, probe) if pool.name > query.marker]
            pools = pools[: query.limit]
            bodies = [_shown(pool, detail=query.detail, factors=query.factors) for pool in pools]
        return [PoolListText(text=_text(bodies))] if bodies else []


class _CachedText:
    """The text of all pools in detail, in parts: pools that follow one another by name and were reported together."""

    def __init__(self, factors: bool) -> None:
        self._factors = factors
        self._last_heard = pool_views.last_heard if factors else pool_views.last_heard_as_in_cinder
        self._lock = threading.Lock()
        self._snapshot: PoolsSnapshot | None = None
        self._parts: list[tuple[str, list[str]]] = []
        self._texts: list[str] = []

    def parts(self, snapshot: PoolsSnapshot) -> list[PoolListText]:
        """Return the parts for a snapshot."""
        with self._lock:
            before, self._snapshot = self._snapshot, None  # until all parts are written
            same = before is not None and before.stats.keys() == snapshot.stats.keys()
            if before is None or not same or before.heard.keys() != snapshot.heard.keys():
                parts = itertools.groupby(sorted(snapshot.stats), functools.partial(pool_views.source, snapshot))
                self._parts = [(source, list(names)) for source, names in parts]
                self._texts = [self._written(snapshot, *part) for part in self._parts]
            else:
                news = _news(before, snapshot)
                for index, part in enumerate(self._parts):
                    if backend_of(part[1][0]) in news:
                        self._texts[index] = self._written(snapshot, *part)
            self._snapshot = snapshot
            heard = {
                source: pool_list_text.last_report_text(self._last_heard(snapshot, source)) for source, _ in self._parts
            }
            spelled_parts = zip(self._parts, self._texts, strict=True)
            return [PoolListText(text=text, last_report=heard[source]) for (source, _), text in spelled_parts]

    def _written(self, snapshot: PoolsSnapshot, source: str, names: Iterable[str]) -> str:
        heard = self._last_heard(snapshot, source)
        bodies = []
        for pool in pool_views.shown(snapshot, names):
            body = _shown(pool, detail=True, factors=self._factors)
            bodies.append(body | {"capabilities": pool_list_text.with_gap(body["capabilities"], heard)})
        return _text(bodies)


def _news(before: PoolsSnapshot, now: PoolsSnapshot) -> Collection[str]:
    """Return the backends whose pools are shown differently than before; both snapshots have the same pools."""
    if (before.calculation, before.default_ratio) != (now.calculation, now.default_ratio):
        return set(map(backend_of, now.stats))
    changed = {name for name, stats in now.stats.items() if before.stats[name] is not stats}
    changed |= {
        name
        for name in before.findings.keys() | now.findings.keys()
        if before.findings.get(name) != now.findings.get(name)
    }
    if before.pools.names != now.pools.names:
        # The order of rows has changed, which is rare.
        changed.update(now.stats)
    else:
        differ = np.flatnonzero(before.pools.differing(now.pools)).tolist()
        changed.update(now.pools.names[row] for row in differ)
        if before.pools.zones != now.pools.zones:
            zones = zip(now.pools.names, before.pools.zones, now.pools.zones, strict=True)
            changed.update(name for name, old, new in zones if old != new)
    notices = {backend for backend, _ in before.notices.items() ^ now.notices.items()}
    return set(map(backend_of, changed)) | (set(before.draining) ^ set(now.draining)) | notices


def _shown(pool: PoolView, *, detail: bool, factors: bool) -> dict[str, Any]:
    """Return a pool as :class:`tonnage.api.schemas.response_bodies.Pool` describes it."""
    body: dict[str, Any] = {"name": pool.name}
    if detail:
        body["capabilities"] = pool.capabilities if factors else pool_views.as_in_cinder(pool.capabilities)
        if factors:
            body["capacity_factors"] = pool.capacity_factors
    return body


def _text(pools: Sequence[dict[str, Any]]) -> str:
    """Return pools as JSON, packed: a list without its brackets."""
    try:
        text = msgspec.json.encode(pools)
    except UnicodeEncodeError:  # from a driver that reports broken text
        text = msgspec.json.encode(pool_figures.mended(pools))
    return packed_reports.packed(text[1:-1])
