# SPDX-License-Identifier: Apache-2.0
"""Metrics: a real Prometheus scrapes a standalone, and daemons."""

import contextlib
import itertools
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

import bcrypt
import pytest
import requests
import sqlalchemy as sa
from sqlalchemy import orm

from tests import suites
from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment
from tests.servers import base, prometheus
from tests.servers.base import wait_for
from tests.servers.prometheus import Prometheus
from tonnage.extensions.history import coming_refusals, history_writer, tables
from tonnage.extensions.history.coming_refusals import ComingRefusals
from tonnage.extensions.history.forecast.time_to_full import BOUNDS
from tonnage.ledger import models
from tonnage.ledger.db import database

ETC = pathlib.Path(__file__).parents[2] / "etc"
BOARD, RULES = ETC / "grafana" / "tonnage.json", ETC / "prometheus" / "tonnage.rules.yml"
BACKENDS = {"disk": {"filesystem_size_limit_gb": 10, "filesystem_provisioning": "thin"}}


@pytest.fixture
def addresses() -> dict[str, str]:
    """The address of the metrics of each daemon."""
    return {name: f"127.0.0.1:{base.free_port()}" for name in ("scheduler", "api")}


@pytest.fixture
def options(addresses: dict[str, str]) -> dict[str, str | int | bool]:
    """The options of ``[metrics]``."""
    return {
        "enabled": True,
        "cache_time": 0,
        **{f"{name}_listen_port": address.partition(":")[2] for name, address in addresses.items()},
    }


@pytest.fixture
def start_prometheus() -> Callable[..., Prometheus]:
    """A function that returns a server with these jobs."""
    if not Prometheus.installed():
        suites.cannot_run(Prometheus.name, f"no {Prometheus.name} on this machine; install {Prometheus.packages}")
    return Prometheus


def check_scraped(tonnage: Deployment, daemons: Sequence[str], server: Prometheus) -> None:
    """Assert that Prometheus has the figures after one volume of 3 GiB was created and one request was refused."""
    wait_for(lambda: server.value("sum(up)") == len(daemons) + 1, "everything is scraped")
    pool = tonnage.pool("disk")
    expected = {
        f'tonnage_pool_allocated_bytes{{pool="{pool}"}}': 3 * 2**30,
        f'tonnage_pool_info{{pool="{pool}",driver="filesystem"}}': 1,
        'sum(tonnage_scheduler_decisions_total{verb="create",outcome="placed"})': 1,
        'sum(tonnage_scheduler_refusals_total{filter="CapacityFilter",code="no_capacity"})': 1,
        'sum(tonnage_scheduler_decision_duration_seconds_count{verb="create"})': 2,
        'sum(tonnage_scheduler_outcomes_total{result="succeeded"})': 1,
        'sum(tonnage_api_requests_total{method="POST",code="202"})': 1,
        'sum(tonnage_scheduler_reports_total{result="applied"}) > bool 0': 1,
        "tonnage_backend_up": 1,
    }
    assert {text: server.value(text) for text in expected} == expected


@contextlib.contextmanager
def scraped(
    tonnage: Deployment, daemons: Sequence[str], start_prometheus: Callable[..., Prometheus]
) -> Iterator[Prometheus]:
    """A Prometheus with the shipped rules, whose tool has nothing against the pages of Tonnage."""
    rest = tonnage.start().rest
    rest.wait_until_available(rest.create(3))
    assert rest.request_volume(1000).status_code == 409
    tonnage.check_at_rest()
    for address, path in itertools.product(daemons, ("/metrics", "/metrics/ledger")):
        assert prometheus.objections(requests.get(f"http://{address}{path}", timeout=30).text) == ""
    with start_prometheus({"/metrics": daemons, "/metrics/ledger": daemons[-1:]}, RULES) as server:
        check_scraped(tonnage, daemons, server)
        yield server


def queries_of_board() -> list[str]:
    """Return the queries of the board for all backends, with the interval that Grafana would choose at least."""
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [query.replace("$backend", ".+").replace("$__rate_interval", "1m") for query in queries]


def queries_of_rules(server: Prometheus) -> list[str]:
    """Return the queries of recording rules, and the selectors in those of alerts, which should find nothing."""
    found: list[str] = []
    for rule in server.rules():
        alerts = rule["type"] == "alerting"
        found += re.findall(r"[a-z_:]*tonnage[a-z_:]+(?:\{[^}]*\})?", rule["query"]) if alerts else [rule["query"]]
    return found


def wait_for_data(server: Prometheus, queries: Sequence[str]) -> None:
    """Wait until each query has had data."""
    waiting = list(queries)
    assert waiting

    def done() -> bool:
        waiting[:] = [query for query in waiting if not server.values(query)]
        return not waiting

    try:
        wait_for(done, "every query has data", 30)
    except TimeoutError:
        pytest.fail(f"without data: {waiting}")


def add_forecasts(tonnage: Deployment) -> None:
    """Add forecasts of both bounds of the pool for today, and of refusals, which need weeks of history."""
    engine = database.create_engine(tonnage.database_url)
    ledger = database.Database(engine)

    def add(session: orm.Session) -> None:
        today = history_writer.database_time(session).replace(hour=0, minute=0, second=0, microsecond=0)
        pool_id = session.scalars(sa.select(models.Pool.id)).one()
        days = {"p10_days": 5.0, "p50_days": 7.0, "p90_days": 9.0, "low_gb": 1.0, "high_gb": 2.0}
        rows = [{"made_on": today, "pool_id": pool_id, "bound": each, "known_days": 60, **days} for each in BOUNDS]
        session.execute(sa.insert(tables.PoolForecast), rows)
        coming_refusals.store(session, [ComingRefusals(type_id="", known_days=60, runs=20, refused=12)])

    ledger.run(add)
    engine.dispose()


@pytest.mark.parametrize("deploy", ["standalone"], indirect=True, scope="module")
def test_prometheus_scrapes_a_standalone(
    deploy: Deploy,
    addresses: dict[str, str],
    options: dict[str, str | int | bool],
    start_prometheus: Callable[..., Prometheus],
) -> None:
    with (
        deploy(BACKENDS, sections={"metrics": {**options, "openstack": True}}) as tonnage,
        scraped(tonnage, list(addresses.values()), start_prometheus) as server,
    ):
        page = requests.get(f"http://{addresses['scheduler']}/metrics/openstack", timeout=30).text
        assert f'name="{tonnage.pool("disk")}",vendor_name="Tonnage",volume_backend_name="disk"}} 10.0' in page
        assert 'openstack_cinder_limits_volume_used_gb{tenant="' in page
        wait_for(lambda: {rule["health"] for rule in server.rules()} == {"ok"}, "all rules have been evaluated")


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", ["postgresql"], indirect=True, scope="module")
def test_every_query_has_data_until_the_agent_stops_and_its_pools_leave_all_figures(
    deploy: Deploy,
    addresses: dict[str, str],
    options: dict[str, str | int | bool],
    start_prometheus: Callable[..., Prometheus],
) -> None:
    with (
        deploy(BACKENDS, sections={"metrics": options}, service_down_time=15) as tonnage,
        scraped(tonnage, list(addresses.values()), start_prometheus) as server,
    ):
        add_forecasts(tonnage)
        queries = [*queries_of_board(), *queries_of_rules(server)]
        under_way = [query for query in queries if "tonnage_claim_oldest_timestamp_seconds" in query]
        wait_for_data(server, [query for query in queries if query not in under_way])
        tonnage.end("agent")
        tonnage.rest.create(1)  # it stays in flight
        wait_for_data(server, under_way)
        wait_for(lambda: server.value("tonnage_pool_up") == 0, "the backend is down")
        gone = ("tonnage_pool_total_bytes", "tonnage:total_bytes:sum", "tonnage:allocated_bytes:sum")
        # Prometheus evaluates one group of rules after the other.
        for series in (*gone, "pool:tonnage_physical_taken:ratio"):
            wait_for(lambda: server.values(series) == [], f"{series} is without its pool")  # noqa: B023
        assert server.value("tonnage_pool_figures_timestamp_seconds > bool 0") == 1


@pytest.mark.parametrize("deploy", ["standalone"], indirect=True, scope="module")
def test_on_other_addresses_only_users_are_admitted(
    deploy: Deploy, addresses: dict[str, str], options: dict[str, str | int | bool]
) -> None:
    with deploy(BACKENDS, sections={"metrics": {**options, "listen": "0.0.0.0"}}) as tonnage:  # noqa: S104
        refused = tonnage.run_command("standalone", tonnage.conf)
        assert refused.code != 0
        assert "[metrics] listen = 0.0.0.0 may be reached from other machines" in refused.error
        users = tonnage.folder / "web.yml"
        users.write_text(f"basic_auth_users: {{prometheus: {bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}}}")
        text = tonnage.conf.read_text()
        tonnage.conf.write_text(text.replace("[metrics]\n", f"[metrics]\nweb_config_file = {users}\n"))
        tonnage.start()
        url = f"http://{addresses['scheduler']}/metrics"
        assert requests.get(f"{url}/openstack", auth=("prometheus", "secret"), timeout=30).status_code == 404
        assert requests.get(url, timeout=30).status_code == 401
        assert requests.get(url, auth=("prometheus", "wrong"), timeout=30).status_code == 401
        assert "tonnage_build_info" in requests.get(url, auth=("prometheus", "secret"), timeout=30).text
