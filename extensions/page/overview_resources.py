# SPDX-License-Identifier: Apache-2.0
"""``/capacity-overview``: the figures of pools that the web page shows, for administrators."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import falcon
from sqlalchemy import orm

from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.shared_results import SharedResult
from tonnage.api.http import list_query
from tonnage.api.http.annotations import operation
from tonnage.api.http.cached_answers import send, text_of_time
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.capacity import errors, units
from tonnage.capacity.pools.pool import short_name
from tonnage.extensions.page import overview_bodies as bodies
from tonnage.extensions.page.capacity_overview import Overview
from tonnage.extensions.page.policy_rules import CAPACITY_OVERVIEW
from tonnage.extensions.page.severity import Severity
from tonnage.ledger.inventory import audit_findings, volume_figures

#: The largest number of pools in one page, and of volumes of one pool.
_MAX_PAGE = 1000
_MAX_VOLUMES = 100

#: The largest number of selections that are kept for one overview.
_MAX_SELECTIONS = 50

#: The values by which pools can be sorted.
_SORT_KEYS = (
    "name",
    "availability_zone",
    "state",
    "full_percent",
    "full_in_days",
    "physical_percent",
    "promised_percent",
    "total_gb",
    "in_flight_gb",
    "headroom_thin_gb",
    "headroom_thick_gb",
    "max_over_subscription_ratio",
    "collected_at",
)
_TEXT_KEYS = frozenset({"name", "availability_zone", "state", "collected_at"})
_STATES = ("up", "down", "disabled", "draining")
_SELECTION_FILTERS = ("name", "availability_zone")
_SELECTION_WORDS = {"state": _STATES, "severity": tuple(Severity)}

_NUMBER = "^[0-9]{1,9}$"
_POOLS = Query(
    filters=_SELECTION_FILTERS,
    words={**_SELECTION_WORDS, "sort_key": _SORT_KEYS, "sort_dir": ("asc", "desc")},
    patterns={"limit": _NUMBER, "offset": _NUMBER},
)
_FILL = Query(filters=_SELECTION_FILTERS, words=_SELECTION_WORDS)
_POOL = Query(required=("name",))


class Summary:
    """``GET /capacity-overview``."""

    def __init__(self, context: ResourceContext, reading: SharedResult[Overview]) -> None:
        self._context, self._reading = context, reading

    @operation({200: bodies.CapacitySummary, 304: None})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the sums of all pools, and the parts that the sums leave out."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        send(req, resp, self._reading.get().summary)


class Pools:
    """``GET /capacity-overview/pools``."""

    def __init__(self, context: ResourceContext, reading: SharedResult[Overview]) -> None:
        self._context, self._reading = context, reading
        #: The last overview, with the pools of each selection.
        self._selected: tuple[Overview | None, dict[_Selection, list[bodies.PoolOverview]]] = (None, {})

    @operation({200: bodies.PoolOverviews, 304: None}, query=_POOLS)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List a page of pools, by default the 100 fullest.

        ``name`` selects the pools whose name contains it. Unknown values are the last in each order.
        """
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        parameters = _POOLS.read(req)
        limit, offset = min(_number(parameters, "limit", 100), _MAX_PAGE), _number(parameters, "offset", 0)
        selection = _Selection.of_query(parameters, "full_percent", "desc")
        pools = self._select(selection, self._reading.get())
        send(req, resp, bodies.PoolOverviews(pools[offset : offset + limit], len(pools)))

    def _select(self, selection: "_Selection", overview: Overview) -> list[bodies.PoolOverview]:
        """Return the selected pools. Open pages ask for the same selections of one overview again and again."""
        last_overview, selected = self._selected
        if last_overview is not overview:
            selected = {}
            self._selected = (overview, selected)
        pools = selected.get(selection)
        if pools is None:
            pools = selection.of(overview.pools)
            if len(selected) < _MAX_SELECTIONS:
                selected[selection] = pools
        return pools


class Fill:
    """``GET /capacity-overview/fill``."""

    def __init__(self, context: ResourceContext, reading: SharedResult[Overview]) -> None:
        self._context, self._reading = context, reading

    @operation({200: bodies.PoolFill, 304: None}, query=_FILL)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the fullness of all pools by name, for a map of them, or of those that the parameters select."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        pools = _Selection.of_query(_FILL.read(req), "name", "asc").of(self._reading.get().pools)
        fill = bodies.PoolFill(
            names=[pool.name for pool in pools],
            full_percent=[pool.full_percent for pool in pools],
            severity=[pool.severity for pool in pools],
            stale=[pool.stale for pool in pools],
        )
        send(req, resp, fill)


class Backends:
    """``GET /capacity-overview/backends``."""

    def __init__(self, context: ResourceContext, reading: SharedResult[Overview]) -> None:
        self._context, self._reading = context, reading

    @operation({200: bodies.BackendOverviews, 304: None})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List all backends by name, with their states and the sums of their pools."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        send(req, resp, bodies.BackendOverviews(list(self._reading.get().backends)))


class Pool:
    """``GET /capacity-overview/pool``. The name is in the query, as it may contain any character."""

    def __init__(self, context: ResourceContext, reading: SharedResult[Overview]) -> None:
        self._context, self._reading = context, reading

    @operation({200: bodies.PoolDetail, 304: None}, query=_POOL, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the pool ``name`` with its largest volumes, its operations in progress and the findings about it."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        name = _POOL.read(req)["name"]
        pools = self._reading.get().pools
        pool = next((candidate for candidate in pools if candidate.name == name), None)
        if pool is None:
            raise errors.NotFound(f"pool {name} could not be found: no report has named it")
        sharing = [
            candidate.name
            for candidate in pools
            if pool.storage_id is not None and candidate.storage_id == pool.storage_id and candidate.name != name
        ]
        with self._context.database.reading(patient=False) as session:
            detail = _detail(session, pool, sharing, self._context.down_time)
        send(req, resp, detail)


@dataclass(frozen=True, slots=True)
class _Selection:
    """The pools whose names contain ``name``, of a state, severity and zone, in an order; empty texts select all."""

    name: str
    state: str
    severity: str
    availability_zone: str
    key: str
    descending: bool

    @classmethod
    def of_query(cls, parameters: Mapping[str, str], key: str, direction: str) -> "_Selection":
        """Return the selection of a request; ``key`` and ``direction`` are its usual order."""
        return cls(
            name=parameters.get("name", ""),
            state=parameters.get("state", ""),
            severity=parameters.get("severity", ""),
            availability_zone=parameters.get("availability_zone", ""),
            key=parameters.get("sort_key", key),
            descending=parameters.get("sort_dir", direction) == "desc",
        )

    def of(self, pools: Iterable[bodies.PoolOverview]) -> list[bodies.PoolOverview]:
        """Return the selected pools. Pools with equal values keep their order.

        Unknown values are the last, and old figures tell nothing about fullness.
        """
        name_part = self.name.casefold()
        matches = [
            pool
            for pool in pools
            if name_part in pool.name.casefold()
            and self.state in ("", pool.state)
            and self.severity in ("", pool.severity)
            and self.availability_zone in ("", pool.availability_zone)
        ]
        with_value = [pool for pool in matches if self._value(pool) is not None]
        without_value = [pool for pool in matches if self._value(pool) is None]
        return [*sorted(with_value, key=self._value, reverse=self.descending), *without_value]

    def _value(self, pool: bodies.PoolOverview) -> Any:
        """Return the value of a pool for the order, None if it is unknown."""
        if self.key == "full_percent" and pool.stale:
            return None
        value = getattr(pool, self.key)
        if self.key in _TEXT_KEYS or value not in (units.UNKNOWN, units.INFINITE):
            return value
        return math.inf if value == units.INFINITE else None


def _number(parameters: Any, name: str, default: int) -> int:
    """Return a number of the query. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
    text = parameters.get(name)
    if text is None:
        return default
    if not list_query.is_number(text):
        raise errors.InvalidInput(f"{name} is {text!r}: expected a whole number")
    return int(text)


def _detail(session: orm.Session, pool: bodies.PoolOverview, sharing: list[str], down_time: float) -> bodies.PoolDetail:
    volume_filter = volume_figures.VolumeFilter(pool=pool.name)
    return bodies.PoolDetail(
        pool=pool,
        volumes=[
            bodies.PoolVolume(
                id=row.id,
                name=row.name,
                project_id=row.project_id,
                status=row.status,
                size_gb=row.size_gb,
                volume_type=row.volume_type,
                provisioning=row.provisioning,
                created_at=text_of_time(row.created_at) or "",
            )
            for row in itertools.islice(
                volume_figures.volumes(session, volume_filter, largest_first=True), _MAX_VOLUMES
            )
        ],
        volume_count=volume_figures.count(session, volume_filter),
        claims=[
            bodies.PoolClaim(
                volume_id=row.volume_id,
                verb=row.verb,
                state=row.state,
                size_gb=row.size_gb,
                physical_gb=row.physical_gb,
                request_id=row.request_id,
                created_at=text_of_time(row.created_at) or "",
            )
            for row in volume_figures.claims_in_flight(session, pool.name, down_time)
        ],
        findings=[
            bodies.PoolFinding(
                breach=finding.breach, text=finding.evidence.text, seen_at=text_of_time(finding.seen_at) or ""
            )
            for finding in audit_findings.load(session, pool.backend)
            if finding.evidence.once is None and finding.pool == audit_findings.stored_name(short_name(pool.name))
        ],
        sharing=sharing,
    )
