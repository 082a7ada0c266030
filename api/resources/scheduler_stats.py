# SPDX-License-Identifier: Apache-2.0
"""Queries to the schedulers: pools, explanations of decisions, and what-if simulations."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import falcon

from tonnage.api.auth import policies
from tonnage.api.context import views
from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.volume_requests import RequestReader
from tonnage.api.http import list_query, microversions
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.schemas import response_bodies, simulation_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog import refusals, volume_decisions
from tonnage.ledger.inventory import overviews
from tonnage.ledger.inventory.overviews import OVERVIEWS
from tonnage.rpc import contract
from tonnage.rpc.messages import PoolListQuery, PoolQuery, WhatIf

_QUERY = Query(
    flags=("detail",),
    filters=("name", "volume_type", "marker"),
    patterns={"limit": "^[0-9]{1,9}$"},
    other_parameters="Any reported capability: the pools with that value (since 3.28).",
)

_REFUSAL_FILTERS = ("request_id", "volume_id", "project_id", "pool", "code")

#: The pattern of ``limit``, and its default.
_LIMIT, _USUAL_REFUSALS = "[1-9][0-9]{0,3}", 100

_REFUSALS = Query(flags=("summary",), filters=_REFUSAL_FILTERS, patterns={"limit": f"^{_LIMIT}$"})
_WHY = Query(required=("volume",))
_OVERVIEW = Query(filters=sorted({name for shown in OVERVIEWS.values() for name in (*shown.filters, *shown.required)}))

#: Most bytes of a part of a response that is passed to the server at once.
_CHUNK_SIZE = 2**18


class Pools:
    """``GET /scheduler-stats/get_pools``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: response_bodies.Pools}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the pools; with ``detail`` their capabilities, since 3.72 also Tonnage's own and the capacity factors.

        Filters apply since 3.28, the filter by volume type since 3.35. Older microversions ignore them, as in Cinder.
        Since 3.72 there are pages, by name: at most ``limit`` pools, those after the name ``marker``.
        """
        self._context.policy.require(req.context.identity, policies.GET_POOLS)
        parameters = dict(_QUERY.read(req))
        detail = list_query.boolean(parameters, "detail")
        parameters.pop("detail", None)
        if not req.at_least(microversions.GET_POOLS_FILTERS):
            parameters.clear()
        volume_type = parameters.pop("volume_type", None)
        if not req.at_least(microversions.GET_POOLS_VOLUME_TYPE):
            volume_type = None
        limit, marker = None, ""
        if req.at_least(microversions.OWN_KEYS) and parameters.keys() & {"limit", "marker"}:
            limit = self._context.paginator.page(parameters).limit
            marker = parameters.pop("marker", "")
            parameters.pop("limit", None)
        query = PoolListQuery(
            name=parameters.pop("name", None),
            volume_type=volume_type,
            capabilities=parameters,
            detail=detail,
            factors=detail and req.at_least(microversions.OWN_KEYS),
            limit=limit,
            marker=marker,
        )
        pools = self._context.scheduler.pool_list(query)
        if not pools:
            self._require_known(query.capabilities)
        _send(resp, b'{"pools":[', *_with_commas(pools), b"]}")

    def _require_known(self, capabilities: Mapping[str, str]) -> None:
        """Raise InvalidInput if no pool reports one of these capabilities at all."""
        if not capabilities:
            return
        reported_keys = {
            key for pool in self._context.scheduler.call(contract.GET_POOLS, PoolQuery()) for key in pool.capabilities
        }
        unknown = sorted(capabilities.keys() - reported_keys)
        if unknown and reported_keys:
            raise errors.InvalidInput(
                f"Invalid filters {', '.join(unknown)} are found in query options: no pool has such a capability."
            )


def _with_commas(parts: Sequence[bytes]) -> list[bytes]:
    return [item for part in parts for item in (part, b",")][:-1]


def _send(resp: falcon.Response, *parts: bytes) -> None:
    """Write encoded JSON into the response."""
    resp.content_type = falcon.MEDIA_JSON
    resp.set_stream(_chunks(parts), sum(map(len, parts)))


def _chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Split large parts, as servers copy the bytes that they have not sent yet, and join small ones."""
    small = bytearray()
    for part in parts:
        if len(small) + len(part) <= _CHUNK_SIZE:
            small += part
            continue
        if small:
            yield bytes(small)
            small.clear()
        yield from (part[start : start + _CHUNK_SIZE] for start in range(0, len(part), _CHUNK_SIZE))
    if small:
        yield bytes(small)


class Explain:
    """``POST /scheduler-stats/explain``, an extension of Tonnage."""

    def __init__(self, context: ResourceContext, reader: RequestReader) -> None:
        self._context, self._reader = context, reader

    @operation({200: response_bodies.Explained}, bodies=tuple(simulation_bodies.REQUEST_BODIES.values()), errors=(404,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Explain the decision about a request, pool by pool, without placing anything.

        The body is that of a request for a new volume or several volumes, or has ``extend``, ``migrate`` or ``retype``.
        """
        self._context.policy.require(req.context.identity, policies.EXPLAIN)
        request, scheduler = self._reader.read_explain(req), self._context.scheduler
        if request.create is not None:
            resp.media = response_bodies.Explained(explanation=scheduler.call(contract.EXPLAIN, request.create))
            return
        [outlook] = scheduler.call(contract.WHAT_IF, WhatIf(requests=[request]))
        resp.media = (
            response_bodies.Explained(explanation=outlook.volumes[0])
            if request.group is None
            else response_bodies.Explained(explanations=outlook.volumes)
        )


class Refusals:
    """``GET /scheduler-stats/refusals``, an extension of Tonnage."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: response_bodies.Refusals}, query=_REFUSALS)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the refused requests that the ledger has recorded, the newest first, at most ``limit`` (100).

        With ``summary`` count them for each day and reason.
        """
        self._context.policy.require(req.context.identity, policies.REFUSALS)
        parameters = _REFUSALS.read(req)
        summary, limit = list_query.boolean(parameters, "summary"), _limit(parameters)
        refusal_filter = refusals.RefusalFilter(
            **{key: parameters[key] for key in _REFUSAL_FILTERS if key in parameters}
        )
        with self._context.database.reading() as session:
            if summary:
                counted = refusals.count(session, refusal_filter)
                resp.media = response_bodies.Refusals(refusal_counts=[views.refusal_count(row) for row in counted])
            else:
                rows = refusals.load(session, refusal_filter, limit)
                resp.media = response_bodies.Refusals([views.refusal(row) for row in rows])


class LedgerOverview:
    """``GET /scheduler-stats/ledger/{overview}``, an extension of Tonnage."""

    def __init__(self, context: ResourceContext, down_time: float) -> None:
        """``down_time`` is the number of seconds of silence after which a backend is down."""
        self._context, self._down_time = context, down_time

    @operation(
        {200: response_bodies.LedgerRows}, query=_OVERVIEW, names={"overview": "|".join(OVERVIEWS)}, errors=(404,)
    )
    def on_get(self, req: Request, resp: falcon.Response, overview: str) -> None:
        """Show the rows of an overview of the ledger: backends, pools, volumes, types, claims, findings about a pool.

        Volumes have pages of 1,000 rows; the next page is that ``after`` the last id. Not all overviews have all
        filters.
        """
        self._context.policy.require(req.context.identity, policies.LEDGER)
        shown = OVERVIEWS.get(overview)
        if shown is None:
            raise errors.NotFound(f"Overview {overview} could not be found; known are {', '.join(OVERVIEWS)}.")
        filters = _OVERVIEW.read(req)
        if other := sorted(filters.keys() - {*shown.filters, *shown.required}):
            raise errors.InvalidInput(f"the overview {overview} has no filter {', '.join(other)}")
        if missing := sorted(set(shown.required) - filters.keys()):
            raise errors.InvalidInput(f"query parameter {', '.join(missing)} is missing")
        with self._context.database.reading(snapshot=True) as session:
            rows = shown.page(session, filters, self._down_time)
        resp.media = response_bodies.LedgerRows([overviews.as_object(row) for row in rows])


class Why:
    """``GET /scheduler-stats/why``, an extension of Tonnage."""

    def __init__(self, context: ResourceContext, reader: RequestReader) -> None:
        self._context, self._reader = context, reader

    @operation({200: response_bodies.Why}, query=_WHY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the decisions on a volume, by its id or name, or on a request, by its id.

        The same request is explained again, pool by pool, without placing anything.
        """
        identity = req.context.identity
        self._context.policy.require(identity, policies.WHY)
        with self._context.database.reading() as session:
            decisions = volume_decisions.find(session, _WHY.read(req)["volume"], self._context.down_time)
        explanation = unexplained = None
        try:
            if (repeated := self._reader.repeat(decisions, identity)) is not None:
                explanation = self._context.scheduler.call(contract.EXPLAIN, repeated)
        except errors.TonnageError as error:
            unexplained = error.message
        resp.media = response_bodies.Why(views.volume_decisions(decisions, explanation, unexplained))


def _limit(parameters: Mapping[str, str]) -> int:
    """Return the largest number of refusals to list. Raises :class:`~tonnage.capacity.errors.InvalidInput`."""
    text = parameters.get("limit", str(_USUAL_REFUSALS))
    if not re.fullmatch(_LIMIT, text):
        raise errors.InvalidInput(f"limit is {text!r}: expected a number from 1 to 9999")
    return int(text)


class WhatIfSimulation:
    """``POST /scheduler-stats/what-if``, an extension of Tonnage."""

    def __init__(self, context: ResourceContext, reader: RequestReader) -> None:
        self._context, self._reader = context, reader

    @operation({200: response_bodies.Outlooks}, bodies=(simulation_bodies.WhatIf,), errors=(404,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Simulate the decisions about requests, one after another, under assumed changes, without placing anything."""
        self._context.policy.require(req.context.identity, policies.WHAT_IF)
        resp.media = response_bodies.Outlooks(
            self._context.scheduler.call(contract.WHAT_IF, self._reader.read_what_if(req))
        )
