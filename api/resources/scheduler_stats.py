# SPDX-License-Identifier: Apache-2.0
"""What the schedulers know and would do: pools, and the explanation of a decision."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import falcon

from tonnage.api.auth import policies
from tonnage.api.http import list_query, microversions
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.schemas import response_bodies, simulation_bodies
from tonnage.api.volume_requests import Requests
from tonnage.capacity import errors
from tonnage.rpc.messages import PoolListQuery, PoolQuery, WhatIf

_QUERY = Query(
    flags=("detail",),
    filters=("name", "volume_type"),
    more="Any capability that a pool reports: the pools that have that value (from 3.28 on).",
)

#: Bytes that are handed to the server at a time.
_PIECE = 2**18


class Pools:
    """``GET /scheduler-stats/get_pools``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: response_bodies.Pools}, query=_QUERY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List the pools; with ``detail`` what is known of each, from 3.72 with its capacity factors.

        Filters count from 3.28 on, by volume type from 3.35; before they are ignored, as in Cinder.
        """
        self._tools.policy.require(req.context.identity, policies.GET_POOLS)
        given = dict(_QUERY.read(req))
        detail = list_query.flag(given, "detail")
        given.pop("detail", None)
        if not req.at_least(microversions.GET_POOLS_FILTERS):
            given.clear()
        volume_type = given.pop("volume_type", None)
        if not req.at_least(microversions.GET_POOLS_VOLUME_TYPE):
            volume_type = None
        query = PoolListQuery(
            name=given.pop("name", None),
            volume_type=volume_type,
            capabilities=given,
            detail=detail,
            factors=detail and req.at_least(microversions.CAPACITY_FACTORS),
        )
        pools = self._tools.scheduler.get_pool_list(query)
        if not pools:
            self._require_known(query.capabilities)
        _send(resp, b'{"pools":[', *_with_commas(pools), b"]}")

    def _require_known(self, capabilities: Mapping[str, str]) -> None:
        """Nothing matches: because no pool is like that, or because no pool has ever heard of it?"""
        if not capabilities:
            return
        known = {key for pool in self._tools.scheduler.get_pools(PoolQuery()) for key in pool.capabilities}
        unknown = sorted(capabilities.keys() - known)
        if unknown and known:
            raise errors.InvalidInput(
                f"Invalid filters {', '.join(unknown)} are found in query options: no pool has such a capability."
            )


def _with_commas(parts: Sequence[bytes]) -> list[bytes]:
    return [piece for part in parts for piece in (part, b",")][:-1]


def _send(resp: falcon.Response, *parts: bytes) -> None:
    """Answer with JSON that is text already."""
    resp.content_type = falcon.MEDIA_JSON
    resp.set_stream(_pieces(parts), sum(map(len, parts)))


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Cut parts that are large, as servers copy what they have not sent yet, and put small ones together."""
    small = bytearray()
    for part in parts:
        if len(small) + len(part) <= _PIECE:
            small += part
            continue
        if small:
            yield bytes(small)
            small.clear()
        yield from (part[start : start + _PIECE] for start in range(0, len(part), _PIECE))
    if small:
        yield bytes(small)


class Explain:
    """``POST /scheduler-stats/explain``: our extension."""

    def __init__(self, tools: Tools, requests: Requests) -> None:
        self._tools, self._requests = tools, requests

    @operation({200: response_bodies.Explained}, bodies=tuple(simulation_bodies.ASKED.values()), errors=(404,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Tell how a request would be decided now, pool by pool; nothing is placed.

        The body is that of a new volume, of several at once, or has ``extend``, ``migrate`` or ``retype``.
        """
        self._tools.policy.require(req.context.identity, policies.EXPLAIN)
        asked, scheduler = self._requests.read_asked(req), self._tools.scheduler
        if asked.create is not None:
            # This way, since schedulers of every release take it.
            resp.media = response_bodies.Explained(explanation=scheduler.explain(asked.create))
            return
        [outlook] = scheduler.what_if(WhatIf(requests=[asked]))
        alone = asked.group is None
        resp.media = (
            response_bodies.Explained(explanation=outlook.volumes[0])
            if alone
            else response_bodies.Explained(explanations=outlook.volumes)
        )


class AskWhatIf:
    """``POST /scheduler-stats/what-if``: our extension."""

    def __init__(self, tools: Tools, requests: Requests) -> None:
        self._tools, self._requests = tools, requests

    @operation({200: response_bodies.Outlooks}, bodies=(simulation_bodies.WhatIf,), errors=(404,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Tell how requests would be decided one after another if some things were different; nothing is placed."""
        self._tools.policy.require(req.context.identity, policies.WHAT_IF)
        resp.media = response_bodies.Outlooks(self._tools.scheduler.what_if(self._requests.read_what_if(req)))
