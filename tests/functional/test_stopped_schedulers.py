# SPDX-License-Identifier: Apache-2.0
"""Schedulers that end, or that freeze in a transaction, while another scheduler goes on."""

import re
import signal
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment
from tests.functional.deployment.outages import BACKENDS, Creates, cut_off_in_a_transaction, frozen_in_a_transaction
from tests.functional.deployment.processes import Process
from tests.servers import base, tcp_proxy
from tests.servers.base import wait_for

on_each_server = pytest.mark.parametrize("deploy", ["postgresql", "mariadb"], indirect=True, scope="module")
on_one_server = pytest.mark.parametrize(
    "deploy", ["postgresql", pytest.param("mariadb", marks=pytest.mark.heavy)], indirect=True, scope="module"
)


@pytest.fixture
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    """Two schedulers."""
    with deploy(BACKENDS) as deployment:
        deployment.start().launch_another_scheduler()
        yield deployment


@on_one_server
def test_a_scheduler_finishes_its_requests_before_it_ends(tonnage: Deployment) -> None:
    with Creates(tonnage, 16) as creates:
        for name in ("scheduler", "another", "scheduler"):
            restart(tonnage, creates, name)
    assert not creates.refusals
    tonnage.check_at_rest()


@pytest.mark.heavy
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("deploy", ["mariadb"], indirect=True, scope="module")
def test_twenty_ends_of_schedulers_refuse_no_request_of_many_clients(tonnage: Deployment) -> None:
    with Creates(tonnage, 64) as creates:
        for _ in range(10):
            for name in ("scheduler", "another"):
                restart(tonnage, creates, name)
    assert not creates.refusals
    assert {status for _, _, status in creates.answers} == {202}
    tonnage.check_at_rest()


def restart(tonnage: Deployment, creates: Creates, name: str) -> None:
    """End a scheduler, which must leave the others, and start it again, while requests go on."""
    creates.wait_for_more()
    process = tonnage.processes[name]
    starts = ready(process)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert not registered(tonnage, name)
    assert "Graceful shutdown timeout" not in process.log.read_text()
    creates.wait_for_more()
    tonnage.launch(name)
    wait_for(lambda: ready(process) > starts, "the scheduler is ready again")


def registered(tonnage: Deployment, name: str) -> bool:
    """Return whether the other schedulers have to agree with the rules of a scheduler."""
    host = name if name == "another" else tonnage.host
    return bool(tonnage.sql(f"SELECT 1 FROM services WHERE host = '{host}' AND default_ratio IS NOT NULL"))


def ready(process: Process) -> int:
    return process.log.read_text().count("Scheduler is ready")


@on_one_server
def test_another_ratio_applies_after_a_stop_of_all_schedulers(tonnage: Deployment) -> None:
    for name in ("scheduler", "another"):
        tonnage.processes[name].send(signal.SIGTERM)
        assert tonnage.processes[name].wait() == 0
    for conf in (tonnage.conf, tonnage.folder / "another" / "tonnage.conf"):
        conf.write_text(conf.read_text().replace("[DEFAULT]\n", "[DEFAULT]\nmax_over_subscription_ratio = 7\n", 1))
    tonnage.launch("scheduler", "another")
    for name in ("scheduler", "another"):
        wait_for(lambda: ready(tonnage.processes[name]) > 1, "the scheduler is ready again")  # noqa: B023


@on_one_server
def test_a_scheduler_that_ends_during_its_start_leaves_the_others(tonnage: Deployment) -> None:
    another = tonnage.processes["another"]
    another.send(signal.SIGTERM)
    another.wait()
    conf = tonnage.folder / "another" / "tonnage.conf"
    bus = re.search("^transport_url = .*$", conf.read_text(), re.MULTILINE)
    assert bus is not None
    conf.write_text(conf.read_text().replace(bus[0], f"transport_url = rabbit://127.0.0.1:{base.free_port()}"))
    tonnage.launch("another")
    wait_for(lambda: registered(tonnage, "another"), "the scheduler has joined, and waits for the message bus")
    another.send(signal.SIGTERM)
    another.wait()
    assert not registered(tonnage, "another")


@pytest.mark.heavy
@on_each_server
def test_a_frozen_scheduler_that_holds_locks_does_not_stop_the_others(tonnage: Deployment) -> None:
    with Creates(tonnage, 16) as creates:
        began = time.monotonic()
        time.sleep(4)
        before = creates.rate(began, began + 4)
        with frozen_in_a_transaction(tonnage, "scheduler"):
            began = time.monotonic()
            # Its locks end after 10 seconds, and its requests are sent again after 5.
            time.sleep(20)
            assert creates.rate(began + 15, began + 20) > 0.25 * before
        creates.wait_for_more()
    assert not creates.refusals
    tonnage.check_at_rest()


@pytest.mark.heavy
@on_each_server
def test_a_scheduler_cut_off_from_the_database_in_a_transaction_does_not_stop_the_others(deploy: Deploy) -> None:
    with deploy(BACKENDS) as tonnage:
        url = sa.make_url(tonnage.database_url)
        with tcp_proxy.TcpProxy(tcp_proxy.target(url)) as proxy:
            tonnage.start().launch_another_scheduler(database_url=tcp_proxy.url_through(proxy, url))
            with Creates(tonnage, 16) as creates:
                began = time.monotonic()
                time.sleep(4)
                before = creates.rate(began, began + 4)
                with cut_off_in_a_transaction(tonnage, proxy):
                    began = time.monotonic()
                    time.sleep(20)
                    assert creates.rate(began + 15, began + 20) > 0.25 * before
                log = tonnage.processes["another"].log
                wait_for(lambda: "Calls are answered again" in log.read_text(), "the other scheduler goes on")
                creates.wait_for_more()
            assert not creates.refusals
            tonnage.check_at_rest()
