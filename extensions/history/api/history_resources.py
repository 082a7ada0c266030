# SPDX-License-Identifier: Apache-2.0
"""The parts of ``/capacity-overview`` about the past and the future: the history of pools, and forecasts."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import falcon

from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.context.shared_results import SharedResult
from tonnage.api.extension_parts import PoolForecast
from tonnage.api.http.annotations import operation
from tonnage.api.http.cached_answers import send, text_of_time
from tonnage.api.http.http_request import Request
from tonnage.api.http.list_query import Query
from tonnage.capacity import errors
from tonnage.extensions.history import coming_refusals, history_reader, history_writer, last_forecasts
from tonnage.extensions.history.api import history_bodies as bodies
from tonnage.extensions.history.api.policy_rules import CAPACITY_OVERVIEW
from tonnage.extensions.history.coming_refusals import StoredRefusals
from tonnage.extensions.history.forecast.time_to_full import CHECKED_DAYS
from tonnage.extensions.history.last_forecasts import MadeForecast
from tonnage.ledger.db.database import Database

#: The largest number of forecasts in one answer.
_MAX_FORECASTS = 100

_HISTORY = Query(required=("name",), words={"grain": tuple(history_writer.KEPT)})


def shared_forecasts(database: Database, lifetime: float) -> SharedResult[Sequence[MadeForecast]]:
    """Return a reading of the last forecasts for all users, the soonest first. They are read again after ``lifetime``
    seconds.
    """

    def read() -> Sequence[MadeForecast]:
        with database.reading(patient=False) as session:
            return sorted(last_forecasts.latest(session, hits=True), key=last_forecasts.soonest)

    return SharedResult(lifetime, read)


def pool_forecasts(forecasts: SharedResult[Sequence[MadeForecast]]) -> Mapping[str, PoolForecast]:
    """Return the forecasts for the views of pools, by the names of the pools.

    A pool may have a forecast for each of two bounds: the soonest one counts.
    """
    soonest_last = reversed(forecasts.get())
    return {made.pool: _pool_forecast(made) for made in soonest_last}


def _pool_forecast(made: MadeForecast) -> PoolForecast:
    days = made.forecast.days[1]
    return PoolForecast(text=made.forecast.text(), full_in_days=round(days, 1) if math.isfinite(days) else None)


class Forecasts:
    """``GET /capacity-overview/forecasts``."""

    def __init__(self, context: ResourceContext, forecasts: SharedResult[Sequence[MadeForecast]]) -> None:
        self._context, self._forecasts = context, forecasts

    @operation({200: bodies.ForecastOverview, 304: None})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the forecasts of the pools that are full soonest, physical and promised separately."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        forecasts = self._forecasts.get()
        shown = [_body(forecast) for forecast in forecasts[:_MAX_FORECASTS]]
        send(req, resp, bodies.ForecastOverview(count=len(forecasts), forecasts=shown))


class ComingRefusals:
    """``GET /capacity-overview/coming-refusals``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: bodies.ComingRefusals, 304: None})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show which volume types will be refused, by the requests of recorded days; made once an hour."""
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        with self._context.database.reading(patient=False) as session:
            refusals = coming_refusals.latest(session)
        names = {type_refusals.of.type_id: type_refusals.volume_type for type_refusals in refusals}
        send(req, resp, bodies.ComingRefusals([_type_body(type_refusals, names) for type_refusals in refusals]))


class History:
    """``GET /capacity-overview/history``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: bodies.PoolHistory, 304: None}, query=_HISTORY, errors=(404,))
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """Show the history of the pool ``name`` and its forecasts.

        It has 400 days or, with the grain ``hour``, 14 days or, with the grain ``ten_minutes``, 24 hours.
        """
        self._context.policy.require(req.context.identity, CAPACITY_OVERVIEW)
        parameters = _HISTORY.read(req)
        name = parameters["name"]
        with self._context.database.reading(patient=False) as session:
            rows = history_reader.slots_of(session, name, parameters.get("grain", history_writer.DAY))
            if rows is None:
                raise errors.NotFound(f"pool {name} could not be found: no report has named it")
            forecasts = last_forecasts.latest(session, pool_name=name, hits=True)
        send(
            req,
            resp,
            bodies.PoolHistory(
                name=name,
                slots=[
                    bodies.HistorySlot(
                        slot=text_of_time(row.slot) or "",
                        used_gb=row.used_gb,
                        used_min_gb=row.used_min_gb,
                        used_max_gb=row.used_max_gb,
                        physical_limit_gb=row.physical_limit_gb,
                        promised_gb=row.provisioned_gb,
                        promise_limit_gb=row.virtual_limit_gb,
                        in_flight_max_gb=row.in_flight_max_gb,
                        created_gb=row.created_gb,
                        deleted_gb=row.deleted_gb,
                        moved_gb=row.moved_gb,
                    )
                    for row in rows
                ],
                forecasts=[_body(forecast) for forecast in sorted(forecasts, key=last_forecasts.soonest)],
            ),
        )


def _body(made: MadeForecast) -> bodies.PoolForecast:
    time_to_full = made.forecast.time_to_full
    p10, p50, p90 = (round(day_count, 1) if math.isfinite(day_count) else None for day_count in made.forecast.days)
    return bodies.PoolForecast(
        pool=made.pool,
        bound=made.forecast.bound,
        made_on=text_of_time(made.made_on) or "",
        text=made.forecast.text(),
        p10_days=p10,
        p50_days=p50,
        p90_days=p90,
        low_gb=None if time_to_full is None else round(time_to_full.low_gb, 2),
        high_gb=None if time_to_full is None else round(time_to_full.high_gb, 2),
        growth_days=CHECKED_DAYS,
        hit_rate=None if made.hit_rate is None else round(made.hit_rate, 3),
        checked=made.checked,
    )


def _type_body(stored: StoredRefusals, names: Mapping[str, str]) -> bodies.TypeRefusals:
    requests = Counter(stored.of.requests)
    return bodies.TypeRefusals(
        volume_type=stored.volume_type,
        text=stored.of.text(),
        known_days=stored.of.known_days,
        runs=stored.of.runs,
        refused_runs=stored.of.refused,
        filter=stored.of.filter,
        message=stored.of.message,
        requests=[
            bodies.WantedVolumes(volume_type=names.get(type_id, type_id), size_gb=size, number=number)
            for (type_id, size), number in requests.items()
        ],
        made_at=text_of_time(stored.made_at) or "",
    )
