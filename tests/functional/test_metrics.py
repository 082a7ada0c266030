# SPDX-License-Identifier: Apache-2.0
"""Metrics: a real Prometheus scrapes a standalone, and daemons."""

import itertools
from collections.abc import Callable

import bcrypt
import pytest
import requests

from tests import suites
from tests.functional.conftest import Deploy
from tests.servers import base, prometheus
from tests.servers.base import wait_for
from tests.servers.prometheus import Prometheus

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


@pytest.mark.parametrize("deploy", ["standalone", "postgresql"], indirect=True, scope="module")
def test_prometheus_scrapes_all_metrics(
    deploy: Deploy,
    addresses: dict[str, str],
    options: dict[str, str | int | bool],
    start_prometheus: Callable[..., Prometheus],
) -> None:
    with deploy(BACKENDS, sections={"metrics": options}) as tonnage:
        rest = tonnage.start().rest
        rest.wait_until_available(rest.create(3))
        assert rest.request_volume(1000).status_code == 409
        tonnage.check_at_rest()
        daemons = list(addresses.values()) if tonnage.distributed else [addresses["scheduler"]]
        for address, path in itertools.product(daemons, ("/metrics", "/metrics/ledger")):
            assert prometheus.objections(requests.get(f"http://{address}{path}", timeout=30).text) == ""
        with start_prometheus({"/metrics": daemons, "/metrics/ledger": daemons[-1:]}) as server:
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
        assert requests.get(url, timeout=30).status_code == 401
        assert requests.get(url, auth=("prometheus", "wrong"), timeout=30).status_code == 401
        assert "tonnage_build_info" in requests.get(url, auth=("prometheus", "secret"), timeout=30).text
