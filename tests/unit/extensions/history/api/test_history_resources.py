# SPDX-License-Identifier: Apache-2.0
"""The resources behind the web page about the past and the future."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.api.cluster import BACKEND, Client, Cluster
from tonnage.extensions.history import coming_refusals, history_writer, tables
from tonnage.extensions.history.coming_refusals import ComingRefusals, WantedVolume
from tonnage.ledger import models

PATH = "/v3/capacity-overview"
NAME = f"{BACKEND}#thin"
COUNTERS = (
    *("in_flight_max_gb", "allocated_gb", "created_gb", "deleted_gb"),
    *("moved_gb", "deleted_sum_gb", "moved_sum_gb"),
)


@pytest.fixture(autouse=True)
def _without_samples(cluster: Cluster) -> None:
    """The scheduler, which may have run for long, writes no sample meanwhile."""
    with orm.Session(cluster.database.engine) as session:
        later = history_writer.database_time(session) + datetime.timedelta(hours=12)
        session.merge(tables.HistoryTurn(id=1, number=1, sampled_at=later))
        session.execute(sa.delete(tables.PoolHistory))
        session.commit()


@pytest.fixture
def history(cluster: Cluster) -> Iterator[datetime.datetime]:
    """Two days of history and the forecasts of a pool; the time is that of today's slot."""
    with orm.Session(cluster.database.engine) as session:
        today = history_writer.database_time(session).replace(hour=0, minute=0, second=0, microsecond=0)
        [pool_id] = session.scalars(sa.select(models.Pool.id).where(models.Pool.name == NAME))
        for age, used in ((1, 10.0), (0, None)):
            slot = today - datetime.timedelta(days=age)
            figures = dict.fromkeys(COUNTERS, 0) | {"provisioned_gb": 20.0, "virtual_limit_gb": 2000.0}
            session.add(tables.PoolHistory(grain="day", slot=slot, pool_id=pool_id, samples=6, used_gb=used, **figures))
        made = {"made_on": today, "pool_id": pool_id, "known_days": 30}
        ranges = {"p10_days": 9.5, "p50_days": 15.5, "p90_days": None, "low_gb": 1.0, "high_gb": 5.0}
        session.add(tables.PoolForecast(bound="promised", **made, **ranges))
        session.add(tables.PoolForecast(bound="physical", **made | {"known_days": 6}))
        for age, hit in ((14, True), (15, False)):
            day = today - datetime.timedelta(days=age)
            session.add(tables.PoolForecast(bound="promised", **made | {"made_on": day}, **ranges, hit=hit))
        session.commit()
    yield today
    with orm.Session(cluster.database.engine) as session:
        session.execute(sa.delete(tables.PoolHistory))
        session.execute(sa.delete(tables.PoolForecast))
        session.commit()


def show(client: Client, path: str, **query: Any) -> Any:
    answer = client.simulate_get(f"{PATH}/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_a_pool_has_its_history_and_its_forecasts(client: Client, history: datetime.datetime) -> None:
    found = show(client, "history", name=NAME)
    assert [(each["used_gb"], each["promised_gb"], each["promise_limit_gb"]) for each in found["slots"]] == [
        (10, 20, 2000),
        (None, 20, 2000),
    ]
    assert found["slots"][-1]["slot"] == f"{history.isoformat()}Z"
    assert found["slots"][-1]["physical_limit_gb"] is None
    assert [(each["bound"], each["checked"]) for each in found["forecasts"]] == [("promised", 2), ("physical", 0)]
    assert show(client, "history", name=NAME, grain="hour")["slots"] == []


def test_the_soonest_forecasts_come_first(client: Client, history: datetime.datetime) -> None:
    found = show(client, "forecasts")
    assert found["count"] == 2
    soon, unknown = found["forecasts"]
    assert (soon["pool"], soon["bound"], soon["p90_days"]) == (NAME, "promised", None)
    assert soon["text"].startswith("full in ")
    assert (soon["low_gb"], soon["high_gb"], soon["hit_rate"], soon["checked"]) == (1, 5, 0.5, 2)
    assert unknown["text"] == "no forecast: 6 of 21 days of history"
    assert (unknown["p10_days"], unknown["low_gb"]) == (None, None)


def test_without_history_there_is_none(client: Client) -> None:
    assert show(client, "forecasts") == {"count": 0, "forecasts": []}
    assert show(client, "history", name=NAME) == {"name": NAME, "slots": [], "forecasts": []}


def test_refusals_to_come_have_their_time_and_the_numbers_of_their_requests(cluster: Cluster, client: Client) -> None:
    refused = ComingRefusals(
        type_id="",
        known_days=30,
        runs=20,
        refused=12,
        filter="CapacityFilter",
        message="No pool for 10 GiB",
        requests=[WantedVolume("", size) for size in (10, 5, 10)],
    )
    cluster.database.run(coming_refusals.store, [refused])
    try:
        [found] = show(client, "coming-refusals")["types"]
    finally:
        cluster.database.run(coming_refusals.store, [])
    made_at = datetime.datetime.fromisoformat(found.pop("made_at"))
    assert abs(datetime.datetime.now(datetime.UTC) - made_at) < datetime.timedelta(minutes=5)
    assert found == {
        "volume_type": "",
        "text": "refused in 12 of 20 runs within 14 days, CapacityFilter first",
        "known_days": 30,
        "runs": 20,
        "refused_runs": 12,
        "filter": "CapacityFilter",
        "message": "No pool for 10 GiB",
        "requests": [
            {"volume_type": "", "size_gb": 10, "number": 2},
            {"volume_type": "", "size_gb": 5, "number": 1},
        ],
    }
    assert show(client, "coming-refusals") == {"types": []}


def test_only_the_history_of_a_pool_with_a_known_grain_is_shown(client: Client) -> None:
    assert client.simulate_get(f"{PATH}/history?name=none").status_code == 404
    assert client.simulate_get(f"{PATH}/history", params={"name": NAME, "grain": "week"}).status_code == 400


@pytest.mark.parametrize("path", ["forecasts", "coming-refusals", "history?name=x"])
def test_only_administrators_see_them(member: Client, path: str) -> None:
    assert member.simulate_get(f"{PATH}/{path}").status_code == 403
