# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: the configuration changes while volumes are placed."""

import os
import pathlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment, Process, run_concurrently
from tests.servers.base import wait_for
from tests.unit.extensions.announcements.conftest import web_server

#: All pools have the default ratio, so the largest pool always has the most virtual free capacity.
BACKENDS: dict[str, dict[str, Any]] = {
    "tiny": {"filesystem_size_limit_gb": 2, "filter_function": "volume.size > 100"},
    "small": {"filesystem_size_limit_gb": 4},
    "large": {"filesystem_size_limit_gb": 8},
    "huge": {"filesystem_size_limit_gb": 16, "filter_function": "volume.size > 100"},
}
BEFORE = {"scheduler_default_filters": "CapacityFilter", "max_over_subscription_ratio": 1000}
#: The new filters alone would choose ``large``, the new multiplier alone ``tiny``.
AFTER = {
    "scheduler_default_filters": "CapacityFilter, DriverFilter",
    "capacity_weight_multiplier": -1.0,
    "max_over_subscription_ratio": 500,
}

READ = "The configuration has been read again"
REFUSED = "The configuration stays as it was: "
#: The normal suite uses one database server.
SERVERS = ["postgresql", pytest.param("mariadb", marks=pytest.mark.heavy)]


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, **BEFORE) as deployment:
        yield deployment.start()


def scheduler(tonnage: Deployment) -> Process:
    return tonnage.processes["scheduler" if tonnage.distributed else "standalone"]


def pids(tonnage: Deployment) -> list[int]:
    return [process.pid for process in scheduler(tonnage).tree()]


def reload(process: Process, *answers: str) -> list[str]:
    """Send SIGHUP, wait for a log line with one of these answers, and return the new log lines."""
    start = process.log.stat().st_size

    def logged() -> list[str]:
        with process.log.open("rb") as log:
            log.seek(start)
            return log.read().decode().splitlines()

    process.send(signal.SIGHUP)
    wait_for(lambda: any(answer in line for answer in answers for line in logged()), f"the log has one of {answers}")
    return logged()


def rewrite(tonnage: Deployment, **defaults: Any) -> None:
    os.replace(tonnage.conf_with(DEFAULT=defaults), tonnage.conf)


class Load:
    """Threads that request volumes until the end of the context."""

    def __init__(self, tonnage: Deployment, threads: int = 4) -> None:
        self._rest = tonnage.rest
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]
        #: A text that is recorded with each later request.
        self.mark = ""
        self.asked: list[tuple[int, str, str]] = []

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def some_more(self, number: int) -> int:
        """Wait for this many more answers, and return their total number."""
        wanted = len(self.asked) + number
        wait_for(lambda: len(self.asked) >= wanted, f"{number} more answers")
        return len(self.asked)

    def _ask(self) -> None:
        while not self._stopped.is_set():
            mark = self.mark
            answer = self._rest.request_volume(1)
            self.asked.append((answer.status_code, answer.json().get("volume", {}).get("id", answer.text), mark))


@on_one_database
def test_each_request_is_decided_by_the_old_or_the_new_configuration(tonnage: Deployment) -> None:
    running = pids(tonnage)
    with Load(tonnage) as load:
        before = load.some_more(20)
        rewrite(tonnage, **AFTER)
        logged = reload(scheduler(tonnage), READ)
        load.mark = "after"
        wait_for(lambda: sum(mark == "after" for *_, mark in load.asked) >= 20, "20 later requests are answered")
    assert {code for code, *_ in load.asked} == {202}
    volumes = dict(tonnage.sql("SELECT volumes.id, pools.name FROM volumes JOIN pools ON pools.id = volumes.pool_id"))
    pools = [volumes[volume_id] for _, volume_id, _ in load.asked]
    old, new = tonnage.pool("huge"), tonnage.pool("small")
    assert set(pools[:before]) == {old}
    assert set(pools) == {old, new}
    assert {volumes[volume_id] for _, volume_id, mark in load.asked if mark} == {new}
    assert pids(tonnage) == running
    assert any("capacity_weight_multiplier changed from [None] to [-1.0]" in line for line in logged)
    # The limits in the ledger have the new ratio, and reports keep it.
    assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(500.0,)]
    tonnage.check_at_rest()
    assert tonnage.sql("SELECT DISTINCT ratio, thin_limit_gb / total_capacity_gb FROM pools") == [(500.0, 500.0)]


@on_one_database
def test_quota_limits_are_reloaded(tonnage: Deployment) -> None:
    there = int(tonnage.sql_value("SELECT COUNT(*) FROM volumes"))
    good = tonnage.conf.read_text()
    _replace(tonnage.conf, _with(good, "quota_volumes", str(there + 2)))
    logged = reload(scheduler(tonnage), READ)
    assert any(f"DEFAULT.quota_volumes changed from [-1] to [{there + 2}]" in line for line in logged)
    answers = run_concurrently(6, lambda number: tonnage.rest.request_volume(1).status_code)
    assert sorted(answers) == [202] * 2 + [413] * 4
    if not tonnage.distributed:  # the API is the same process
        assert tonnage.rest.get("os-quota-sets/demo")["quota_set"]["volumes"] == there + 2
    _replace(tonnage.conf, good)
    reload(scheduler(tonnage), READ)
    assert tonnage.rest.request_volume(1).status_code == 202


@on_one_database
def test_an_unusable_configuration_changes_nothing_and_is_logged_in_one_line(tonnage: Deployment) -> None:
    running, good = pids(tonnage), tonnage.conf.read_text()
    tonnage.rest.wait_until_available(tonnage.rest.create(1))
    pools = {volume["os-vol-host-attr:host"] for volume in tonnage.rest.volumes()}
    spoiled: list[tuple[str, list[str]]] = [
        (_with(good, "scheduler_default_filters", "NoSuchFilter"), ["names 'NoSuchFilter'", "known are"]),
        (_with(good, "max_over_subscription_ratio", "0.5"), ["max_over_subscription_ratio", "'0.5'", "at least 1"]),
        (_with(good, "capacity_weight_multiplier", "nan"), ["CapacityWeigher", "multiplier is nan"]),
        (_with(good, "scheduler_batch_size", "many"), ["scheduler_batch_size", "many"]),
        (good + "\nno option\n", ["tonnage.conf", "no option"]),
    ]
    for text, words in spoiled:
        _replace(tonnage.conf, text + "\n")
        [line] = [line for line in reload(scheduler(tonnage), REFUSED) if "ERROR" in line or "Trace" in line]
        for word in words:
            assert word in line
        assert "Error" not in line
    tonnage.conf.unlink()
    [line] = [line for line in reload(scheduler(tonnage), REFUSED) if "ERROR" in line]
    assert "tonnage.conf" in line
    assert pids(tonnage) == running
    volume = tonnage.rest.wait_until_available(tonnage.rest.create(1))
    assert volume["os-vol-host-attr:host"] in pools
    # A correct configuration, with a change that needs a restart.
    _replace(tonnage.conf, _with(good, "claim_lease", "77"))
    logged = reload(scheduler(tonnage), READ)
    assert any("WARNING" in line and "DEFAULT.claim_lease" in line for line in logged)
    assert tonnage.rest.wait_until_available(tonnage.rest.create(1))["os-vol-host-attr:host"] in pools
    assert pids(tonnage) == running


@on_one_database
def test_notification_options_are_reloaded(tonnage: Deployment) -> None:
    good, filler, log = tonnage.conf.read_text(), tonnage.path("tiny") / "filler", scheduler(tonnage).log
    filler.write_bytes(bytes(100 << 20))  # of 2 GiB
    with web_server() as web:
        # A notification without an answer in time is sent again.
        alerts = f"hook=json://user:secret@127.0.0.1:{web.server_port}/?cto=60&rto=60"
        wanted = _with(_with(good, "capacity_alert_urls", alerts), "capacity_exceeded_percent", "3")
        try:
            # With the present hysteresis no pool could recover.
            _replace(tonnage.conf, wanted)
            logged = reload(scheduler(tonnage), REFUSED)
            assert any("capacity_exceeded_hysteresis is 5" in line for line in logged)
            _replace(tonnage.conf, _with(wanted, "capacity_exceeded_hysteresis", "1"))
            logged = reload(scheduler(tonnage), READ)
            assert any("capacity_exceeded_percent changed from [None] to [3]" in line for line in logged)
            wait_for(lambda: web.posted, "the exceeded pool is announced")
            assert web.posted[0][1]["title"] == f"Pool {tonnage.pool('tiny')} holds too much: physical"
            filler.unlink()
            recovered = f"Pool {tonnage.pool('tiny')} holds no more than it should"
            wait_for(
                lambda: any(told["title"] == recovered for _, told in web.posted), "the recovered pool is announced"
            )
        finally:
            filler.unlink(missing_ok=True)
            _replace(tonnage.conf, good)
            reload(scheduler(tonnage), READ)
    assert "capacity_alert_urls changed from [****] to [****]" in log.read_text()
    assert "secret" not in log.read_text()


def _reload_until_agreed(scheduler: Process) -> None:
    """Send SIGHUP until a scheduler accepts its configuration. The other must agree within 10 s, but may pause."""
    for _ in range(5):
        if any(READ in line for line in reload(scheduler, READ, REFUSED)):
            return
    pytest.fail("the schedulers do not agree")


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", SERVERS, indirect=True, scope="module")
def test_schedulers_change_the_ratio_together_or_not_at_all(deploy: Deploy) -> None:
    with deploy(BACKENDS, **BEFORE, rpc_response_timeout=60) as tonnage:  # no decision during the agreement
        one = tonnage.start().processes["scheduler"]
        two = tonnage.launch_another_scheduler()
        confs = [tonnage.conf, two.log.with_name("tonnage.conf")]
        with Load(tonnage) as load:
            load.some_more(10)
            for conf in confs:
                _replace(conf, _with(conf.read_text(), "max_over_subscription_ratio", "300"))
            [line] = [line for line in reload(one, REFUSED) if "ERROR" in line]
            assert (
                "option max_over_subscription_ratio is 300.0 here and 1000.0 on scheduler another, which is up; it has "
                "to be the same for all: signal all schedulers within 10 s, or stop the others first"
            ) in line
            assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(1000.0,)]
            load.some_more(10)
            run_concurrently(2, lambda number: _reload_until_agreed((one, two)[number]))
            assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(300.0,)]
            load.some_more(10)
        assert {code for code, *_ in load.asked} == {202}
        ratios = tonnage.sql("SELECT host, default_ratio FROM services")
        assert sorted(ratios) == sorted([("another", "300.0"), (tonnage.host, "300.0")])
        tonnage.check_at_rest()
        assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(300.0,)]


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", SERVERS, indirect=True, scope="module")
def test_a_suspended_scheduler_adopts_the_ratio_of_the_others(deploy: Deploy) -> None:
    with deploy(BACKENDS, **BEFORE, service_down_time=12) as tonnage:
        one = tonnage.start().processes["scheduler"]
        two = tonnage.launch_another_scheduler()
        suspended = suspend(tonnage, two)

        def states() -> list[Any]:
            rows = tonnage.rest.get("os-services")["services"]
            return [row["state"] for row in rows if (row["binary"], row["host"]) == ("cinder-scheduler", "another")]

        wait_for(lambda: states() == ["down"], "the suspended scheduler is down")
        _replace(tonnage.conf, _with(tonnage.conf.read_text(), "max_over_subscription_ratio", "300"))
        reload(one, READ)
        assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(300.0,)]
        for process in suspended:
            process.resume()
        with Load(tonnage) as load:
            load.some_more(20)
        assert {code for code, *_ in load.asked} == {202}
        said = "the others have gone over to max_over_subscription_ratio = 300.0, and it follows; it was 1000.0 here"
        wait_for(lambda: said in two.log.read_text(), "the scheduler has adopted the ratio")
        wait_for(
            lambda: set(tonnage.sql("SELECT default_ratio FROM services")) == {("300.0",)},
            "all services have the new ratio",
        )
        tonnage.check_at_rest()
        assert tonnage.sql("SELECT DISTINCT ratio, thin_limit_gb / total_capacity_gb FROM pools") == [(300.0, 300.0)]


#: The number of open transactions of other connections.
TRANSACTIONS = {
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()",
    "mysql": "SELECT COUNT(*) FROM information_schema.innodb_trx t"
    " JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"
    " WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()",
}


def suspend(tonnage: Deployment, process: Process) -> list[psutil.Process]:
    """Suspend a process and its workers outside of any transaction, for whose end others would wait."""
    family = process.tree()
    begun = TRANSACTIONS[sa.make_url(tonnage.database_url).get_backend_name()]

    def suspended() -> bool:
        for one in family:
            one.suspend()
        # The transactions of other processes end.
        for _ in range(20):
            if not tonnage.sql_value(begun):
                return True
            time.sleep(0.05)
        for one in family:
            one.resume()
        return False

    wait_for(suspended, "the process is suspended outside of any transaction")
    return family


def _with(text: str, option: str, value: str) -> str:
    """Return a configuration text with another value of an option in the first section."""
    lines = [line for line in text.splitlines() if not line.startswith(f"{option} =")]
    return "\n".join([lines[0], f"{option} = {value}", *lines[1:]])


def _replace(path: pathlib.Path, text: str) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_text(text)
    fresh.replace(path)
