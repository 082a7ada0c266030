# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: the configuration changes while volumes are placed all the while."""

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
from tests.functional.deployment import Deployment, Process, at_once, until
from tests.unit.notifications.conftest import web_server

#: The default ratio is that of all pools, so that the largest one has the most virtual free capacity for ever.
BACKENDS: dict[str, dict[str, Any]] = {
    "tiny": {"filesystem_size_limit_gb": 2, "filter_function": "volume.size > 100"},
    "small": {"filesystem_size_limit_gb": 4},
    "large": {"filesystem_size_limit_gb": 8},
    "huge": {"filesystem_size_limit_gb": 16, "filter_function": "volume.size > 100"},
}
BEFORE = {"scheduler_default_filters": "CapacityFilter", "max_over_subscription_ratio": 1000}
#: New filters alone would choose large, the new multiplier alone tiny.
AFTER = {
    "scheduler_default_filters": "CapacityFilter, DriverFilter",
    "capacity_weight_multiplier": -1.0,
    "max_over_subscription_ratio": 500,
}

READ = "The configuration has been read again"
REFUSED = "The configuration stays as it was: "
#: What is the same on each of them is asked of one in the ordinary suite.
SERVERS = ["postgresql", pytest.param("mariadb", marks=pytest.mark.heavy)]


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, **BEFORE) as deployment:
        yield deployment.start()


def scheduler(tonnage: Deployment) -> Process:
    return tonnage.processes["scheduler" if tonnage.distributed else "standalone"]


def pids(tonnage: Deployment) -> list[int]:
    return [process.pid for process in scheduler(tonnage).family()]


def signalled(process: Process, *answers: str) -> list[str]:
    """Send SIGHUP and wait for a log line with one of these answers; return what was logged meanwhile."""
    start = process.log.stat().st_size

    def logged() -> list[str]:
        with process.log.open("rb") as log:
            log.seek(start)
            return log.read().decode().splitlines()

    process.send(signal.SIGHUP)
    until(lambda: any(answer in line for answer in answers for line in logged()), f"the log says: {answers}")
    return logged()


def rewrite(tonnage: Deployment, **defaults: Any) -> None:
    os.replace(tonnage.variant(DEFAULT=defaults), tonnage.conf)


class Load:
    """Threads that ask for volumes all the while. Use it as a context manager."""

    def __init__(self, tonnage: Deployment, threads: int = 4) -> None:
        self._rest = tonnage.rest
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]
        #: What is noted with those that are asked for from now on.
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
        """Wait for so many answers; return how many there are then."""
        wanted = len(self.asked) + number
        until(lambda: len(self.asked) >= wanted, f"{number} more answers")
        return len(self.asked)

    def _ask(self) -> None:
        while not self._stopped.is_set():
            mark = self.mark
            answer = self._rest.ask(1)
            self.asked.append((answer.status_code, answer.json().get("volume", {}).get("id", answer.text), mark))


@on_one_database
def test_under_load_each_request_is_decided_by_the_old_or_by_the_new_configuration(tonnage: Deployment) -> None:
    running = pids(tonnage)
    with Load(tonnage) as load:
        before = load.some_more(20)
        rewrite(tonnage, **AFTER)
        logged = signalled(scheduler(tonnage), READ)
        load.mark = "after"
        until(lambda: sum(mark == "after" for *_, mark in load.asked) >= 20, "20 answers to who asked after that")
    assert {code for code, *_ in load.asked} == {202}
    volumes = dict(tonnage.sql("SELECT volumes.id, pools.name FROM volumes JOIN pools ON pools.id = volumes.pool_id"))
    pools = [volumes[volume_id] for _, volume_id, _ in load.asked]
    old, new = tonnage.pool("huge"), tonnage.pool("small")
    assert set(pools[:before]) == {old}
    assert set(pools) == {old, new}
    assert {volumes[volume_id] for _, volume_id, mark in load.asked if mark} == {new}
    assert pids(tonnage) == running
    assert any("capacity_weight_multiplier changed from [None] to [-1.0]" in line for line in logged)
    # What the ledger compares claims with has followed, and reports leave it so.
    assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(500.0,)]
    tonnage.check_at_rest()
    assert tonnage.sql("SELECT DISTINCT ratio, thin_limit_gb / total_capacity_gb FROM pools") == [(500.0, 500.0)]


@on_one_database
def test_limits_of_quotas_are_read_again(tonnage: Deployment) -> None:
    there = int(tonnage.number("SELECT COUNT(*) FROM volumes"))
    good = tonnage.conf.read_text()
    _replace(tonnage.conf, _with(good, "quota_volumes", str(there + 2)))
    logged = signalled(scheduler(tonnage), READ)
    assert any(f"DEFAULT.quota_volumes changed from [-1] to [{there + 2}]" in line for line in logged)
    answers = at_once(6, lambda number: tonnage.rest.ask(1).status_code)
    assert sorted(answers) == [202] * 2 + [413] * 4
    if not tonnage.distributed:  # the API is the same process
        assert tonnage.rest.get("os-quota-sets/demo")["quota_set"]["volumes"] == there + 2
    _replace(tonnage.conf, good)
    signalled(scheduler(tonnage), READ)
    assert tonnage.rest.ask(1).status_code == 202


@on_one_database
def test_what_cannot_be_used_changes_nothing_and_is_said_in_one_line(tonnage: Deployment) -> None:
    running, good = pids(tonnage), tonnage.conf.read_text()
    tonnage.rest.made(tonnage.rest.create(1))
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
        [line] = [line for line in signalled(scheduler(tonnage), REFUSED) if "ERROR" in line or "Trace" in line]
        for word in words:
            assert word in line
        assert "Error" not in line
    tonnage.conf.unlink()
    [line] = [line for line in signalled(scheduler(tonnage), REFUSED) if "ERROR" in line]
    assert "tonnage.conf" in line
    assert pids(tonnage) == running
    volume = tonnage.rest.made(tonnage.rest.create(1))
    assert volume["os-vol-host-attr:host"] in pools
    # The way back, with something that only a restart takes over.
    _replace(tonnage.conf, _with(good, "claim_lease", "77"))
    logged = signalled(scheduler(tonnage), READ)
    assert any("WARNING" in line and "DEFAULT.claim_lease" in line for line in logged)
    assert tonnage.rest.made(tonnage.rest.create(1))["os-vol-host-attr:host"] in pools
    assert pids(tonnage) == running


@on_one_database
def test_what_is_announced_and_to_whom_is_read_again(tonnage: Deployment) -> None:
    good, filler, log = tonnage.conf.read_text(), tonnage.path("tiny") / "filler", scheduler(tonnage).log
    filler.write_bytes(bytes(100 << 20))  # of 2 GiB
    with web_server() as web:
        # Whoever is not answered in time tells it again.
        alerts = f"hook=json://user:secret@127.0.0.1:{web.server_port}/?cto=60&rto=60"
        wanted = _with(_with(good, "capacity_alert_urls", alerts), "capacity_exceeded_percent", "3")
        try:
            # With the hysteresis that there is no pool would ever recover.
            _replace(tonnage.conf, wanted)
            logged = signalled(scheduler(tonnage), REFUSED)
            assert any("capacity_exceeded_hysteresis is 5" in line for line in logged)
            _replace(tonnage.conf, _with(wanted, "capacity_exceeded_hysteresis", "1"))
            logged = signalled(scheduler(tonnage), READ)
            assert any("capacity_exceeded_percent changed from [None] to [3]" in line for line in logged)
            until(lambda: web.posted, "the pool that holds too much now is announced")
            assert web.posted[0][1]["title"] == f"Pool {tonnage.pool('tiny')} holds too much: physical"
            filler.unlink()
            recovered = f"Pool {tonnage.pool('tiny')} holds no more than it should"
            until(lambda: any(told["title"] == recovered for _, told in web.posted), "and that it has recovered")
        finally:
            filler.unlink(missing_ok=True)
            _replace(tonnage.conf, good)
            signalled(scheduler(tonnage), READ)
    assert "capacity_alert_urls changed from [****] to [****]" in log.read_text()
    assert "secret" not in log.read_text()


def _agree(scheduler: Process) -> None:
    """Signal it until it has read its configuration: it asks the other one within 10 s, which may stand still."""
    for _ in range(5):
        if any(READ in line for line in signalled(scheduler, READ, REFUSED)):
            return
    pytest.fail("they do not agree")


@pytest.mark.parametrize("deploy", SERVERS, indirect=True, scope="module")
def test_several_schedulers_change_the_ratio_together_or_not_at_all(deploy: Deploy) -> None:
    with deploy(BACKENDS, **BEFORE, rpc_response_timeout=60) as tonnage:  # nobody decides while they ask each other
        one = tonnage.start().processes["scheduler"]
        two = tonnage.processes["another"] = tonnage.start_another_scheduler()
        confs = [tonnage.conf, two.log.with_name("tonnage.conf")]
        with Load(tonnage) as load:
            load.some_more(10)
            for conf in confs:
                _replace(conf, _with(conf.read_text(), "max_over_subscription_ratio", "300"))
            [line] = [line for line in signalled(one, REFUSED) if "ERROR" in line]
            assert (
                "option max_over_subscription_ratio is 300.0 here and 1000.0 on scheduler another, which is up; it has "
                "to be the same for all: signal all schedulers within 10 s, or stop the others first"
            ) in line
            assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(1000.0,)]
            load.some_more(10)
            at_once(2, lambda number: _agree((one, two)[number]))
            assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(300.0,)]
            load.some_more(10)
        assert {code for code, *_ in load.asked} == {202}
        ratios = tonnage.sql("SELECT host, default_ratio FROM services")
        assert sorted(ratios) == sorted([("another", "300.0"), (tonnage.host, "300.0")])
        tonnage.check_at_rest()
        assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(300.0,)]


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", SERVERS, indirect=True, scope="module")
def test_a_scheduler_that_was_stopped_meanwhile_follows_the_others(deploy: Deploy) -> None:
    with deploy(BACKENDS, **BEFORE, service_down_time=12) as tonnage:
        one = tonnage.start().processes["scheduler"]
        two = tonnage.processes["another"] = tonnage.start_another_scheduler()
        asleep = put_to_sleep(tonnage, two)

        def silence() -> list[Any]:
            rows = tonnage.rest.get("os-services")["services"]
            return [row["state"] for row in rows if (row["binary"], row["host"]) == ("tonnage-scheduler", "another")]

        until(lambda: silence() == ["down"], "it counts as down")
        _replace(tonnage.conf, _with(tonnage.conf.read_text(), "max_over_subscription_ratio", "300"))
        signalled(one, READ)
        assert tonnage.sql("SELECT DISTINCT ratio FROM pools") == [(300.0,)]
        for process in asleep:
            process.resume()
        with Load(tonnage) as load:
            load.some_more(20)
        assert {code for code, *_ in load.asked} == {202}
        said = "the others have gone over to max_over_subscription_ratio = 300.0, and it follows; it was 1000.0 here"
        until(lambda: said in two.log.read_text(), "it has found out")
        until(lambda: set(tonnage.sql("SELECT default_ratio FROM services")) == {("300.0",)}, "it says so to all")
        tonnage.check_at_rest()
        assert tonnage.sql("SELECT DISTINCT ratio, thin_limit_gb / total_capacity_gb FROM pools") == [(300.0, 300.0)]


#: How many transactions others than the one who asks have begun.
TRANSACTIONS = {
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()",
    "mysql": "SELECT COUNT(*) FROM information_schema.innodb_trx t"
    " JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"
    " WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()",
}


def put_to_sleep(tonnage: Deployment, process: Process) -> list[psutil.Process]:
    """Suspend a process with its workers, outside of any transaction: the others would wait for the end of that one."""
    family = process.family()
    begun = TRANSACTIONS[sa.make_url(tonnage.url).get_backend_name()]

    def asleep() -> bool:
        for one in family:
            one.suspend()
        # Those of processes that are awake come to an end.
        for _ in range(20):
            if not tonnage.number(begun):
                return True
            time.sleep(0.05)
        for one in family:
            one.resume()
        return False

    until(asleep, "it sleeps outside of any transaction")
    return family


def _with(text: str, option: str, value: str) -> str:
    """Return a configuration with another value of an option of the first section."""
    lines = [line for line in text.splitlines() if not line.startswith(f"{option} =")]
    return "\n".join([lines[0], f"{option} = {value}", *lines[1:]])


def _replace(path: pathlib.Path, text: str) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_text(text)
    fresh.replace(path)
