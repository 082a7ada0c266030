# SPDX-License-Identifier: Apache-2.0
"""The agent daemon: its processes, its signals, and its work over a real message bus."""

import contextlib
import gc
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.servers.base import wait_for
from tests.servers.rabbitmq import RabbitMQ
from tests.unit.agent import fakes
from tests.unit.agent.fakes import command, eventually
from tests.unit.rpc import bus as message_bus
from tonnage.rpc import messages
from tonnage.rpc.scheduler_server import SchedulerServer

START = [sys.executable, "-c", "from tonnage.cli.daemons.agent import main; main()"]


class Schedulers:
    """A separate fake scheduler for each backend, by the name of the backend."""

    def __init__(self) -> None:
        self.by_backend: dict[str, fakes.Scheduler] = {"node1@a": fakes.Scheduler(), "node1@b": fakes.Scheduler()}

    def hello(self, context: object, message: dict[str, str]) -> messages.Welcome:
        return self.by_backend[message["backend"]].hello(context, message)

    def listing(self, context: object, message: dict[str, str]) -> messages.Receipt:
        return self.by_backend[message["backend"]].listing(context, message)

    def outcomes(self, context: object, message: dict[str, list[dict[str, str]]]) -> list[messages.Receipt]:
        return self.by_backend[message["outcomes"][0]["backend"]].outcomes(context, message)

    def stamps(self, context: object, message: dict[str, str]) -> dict[str, int]:
        return self.by_backend[message["backend"]].stamps(context, message)

    def report(self, context: object, message: dict[str, str]) -> None:
        self.by_backend[message["backend"]].report(context, message)

    def notice(self, context: object, message: dict[str, str]) -> None:
        self.by_backend[message["backend"]].notice(context, message)


@contextlib.contextmanager
def schedulers(url: str) -> Iterator[tuple[Schedulers, fakes.Calls]]:
    """Serve the RPC methods of schedulers on the bus."""
    with message_bus.memory_transport(url=url) as bus:
        endpoint = Schedulers()
        server = SchedulerServer(bus, "one", endpoint)
        server.start()
        try:
            yield endpoint, fakes.Calls(bus)
        finally:
            server.stop()
            server.wait()


Configure = Callable[..., pathlib.Path]
Start = Callable[[pathlib.Path], "subprocess.Popen[str]"]


@pytest.fixture
def configure(tmp_path: pathlib.Path) -> Configure:
    """A function that writes a configuration file with two backends and returns its path."""

    def configured(url: str = "rabbit://nobody@127.0.0.1:1/", default: str = "", backend: str = "") -> pathlib.Path:
        file = tmp_path / "tonnage.conf"
        file.write_text(
            f"[DEFAULT]\nhost = node1\nstate_path = {tmp_path}\nenabled_backends = a, b\ntransport_url = {url}\n"
            f"rpc_response_timeout = 5\n{default}\n"
            f"[a]\nvolume_driver = memory\n{backend}\n[b]\nvolume_driver = memory\n{backend}\n"
        )
        return file

    return configured


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    """A function that starts the daemon, which logs to ``agent.log``."""
    started: list[subprocess.Popen[str]] = []

    def run(file: pathlib.Path) -> "subprocess.Popen[str]":
        with (tmp_path / "agent.log").open("a") as log:
            started.append(
                subprocess.Popen([*START, "--config-file", str(file)], stderr=log, text=True, start_new_session=True)
            )
        return started[-1]

    yield run
    for daemon in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()


def worker_of(daemon: "subprocess.Popen[str]", folder: pathlib.Path, backend: str) -> psutil.Process:
    """Return the worker process that has the lock of a backend."""
    holder = int((folder / "locks" / f"{backend}.lock").read_text().split()[1])
    return next(child for child in psutil.Process(daemon.pid).children() if child.pid == holder)


def start_reported_operation(client: fakes.Calls, scheduler: fakes.Scheduler, backend: str, pool: str) -> str:
    """Start operations until a report includes one that runs, and return its claim. It ends within seconds."""
    for number in range(10):
        claim = f"c-{number}"
        client.run(backend, [command(claim, f"v-{claim}", pool=pool)])
        client.report_now(backend)

        def reported() -> bool:
            return any(claim in report.in_hand for report in scheduler.reports)  # noqa: B023

        def seen() -> bool:
            return reported() or any(outcome.claim_id == claim for outcome in scheduler.outcomes_received)  # noqa: B023

        eventually(seen)
        if reported():
            return claim
    pytest.fail("no report includes a running operation")


def test_each_backend_has_a_process_that_finishes_its_operations_on_sigterm(
    fresh_rabbitmq_url: str, configure: Configure, start: Start, tmp_path: pathlib.Path
) -> None:
    with schedulers(fresh_rabbitmq_url) as (serving, client):
        daemon = start(configure(fresh_rabbitmq_url, backend="memory_latency = 5"))
        for backend, scheduler in serving.by_backend.items():
            eventually(lambda scheduler=scheduler: scheduler.reports, "report")  # type: ignore[misc]
            pools = scheduler.reports[0].pools
            client.run(backend, [command("c1", "v1", pool=pools[0]["pool_name"])])
        one, two = (worker_of(daemon, tmp_path, backend) for backend in serving.by_backend)
        assert one.pid != two.pid
        for scheduler in serving.by_backend.values():
            assert scheduler.outcome_of("c1").ok
        claim = start_reported_operation(client, serving.by_backend["node1@a"], "node1@a", pools[0]["pool_name"])
        daemon.terminate()
        assert daemon.wait(fakes.DEADLINE) == 0
        assert serving.by_backend["node1@a"].outcome_of(claim).ok
    assert not one.is_running()
    assert not two.is_running()


def test_ctrl_c_ends_the_daemon_gracefully(
    fresh_rabbitmq_url: str, configure: Configure, start: Start, tmp_path: pathlib.Path
) -> None:
    with schedulers(fresh_rabbitmq_url) as (serving, _):
        daemon = start(configure(fresh_rabbitmq_url))
        for scheduler in serving.by_backend.values():
            eventually(lambda scheduler=scheduler: scheduler.reports, "report")  # type: ignore[misc]
        os.killpg(daemon.pid, signal.SIGINT)  # as a terminal does
        assert daemon.wait(fakes.DEADLINE) == 0
    log = (tmp_path / "agent.log").read_text()
    assert "Backend node1@a has stopped" in log
    assert "Backend node1@b has stopped" in log
    assert "Traceback" not in log


def test_a_killed_worker_is_restarted_in_a_new_epoch(
    fresh_rabbitmq_url: str, configure: Configure, start: Start, tmp_path: pathlib.Path
) -> None:
    with schedulers(fresh_rabbitmq_url) as (serving, client):
        daemon = start(configure(fresh_rabbitmq_url))
        scheduler = serving.by_backend["node1@a"]
        eventually(lambda: scheduler.reports)
        worker_of(daemon, tmp_path, "node1@a").kill()
        eventually(lambda: [report for report in scheduler.reports if report.epoch == 2])
        client.run("node1@a", [command("c1", "v1", epoch=2, pool=scheduler.reports[-1].pools[0]["pool_name"])])
        assert scheduler.outcome_of("c1").ok
        assert serving.by_backend["node1@b"].epoch <= 1
        daemon.terminate()
        assert daemon.wait(fakes.DEADLINE) == 0


@pytest.mark.heavy
def test_the_daemon_ends_when_another_agent_has_its_backend(
    fresh_rabbitmq_url: str, configure: Configure, start: Start, tmp_path: pathlib.Path
) -> None:
    with schedulers(fresh_rabbitmq_url) as (serving, client):
        daemon = start(configure(fresh_rabbitmq_url))
        scheduler = serving.by_backend["node1@a"]
        eventually(lambda: scheduler.reports)
        said = len(scheduler.hellos)
        scheduler.epoch, scheduler.nonce = 2, "somebody else's"
        client.run("node1@a", [command("c1", "v1", pool=scheduler.reports[0].pools[0]["pool_name"])])
        assert daemon.wait(fakes.DEADLINE) == 1
        assert len(scheduler.hellos) == said
    lines = (tmp_path / "agent.log").read_text().splitlines()
    assert [line for line in lines if line.startswith("tonnage-agent: ")] == [
        "tonnage-agent: backend node1@a: epoch 1 is over, another process has introduced itself as this backend; no "
        "two agents may run backends of the same name, so this one stops serving it",
        "tonnage-agent: tonnage-agent has ended because of the error above",
    ]


@pytest.mark.heavy
# kombu leaves the socket of a connection that broke to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.timeout(600)
def test_outcomes_are_sent_after_a_restart_of_the_bus(
    rabbitmq_server: RabbitMQ, fresh_rabbitmq_url: str, configure: Configure, start: Start
) -> None:
    with schedulers(fresh_rabbitmq_url) as (serving, client):
        daemon = start(configure(fresh_rabbitmq_url, backend="memory_latency = 5"))
        scheduler = serving.by_backend["node1@a"]
        eventually(lambda: scheduler.reports)
        claim = start_reported_operation(client, scheduler, "node1@a", scheduler.reports[0].pools[0]["pool_name"])
        rabbitmq_server.kill()
        rabbitmq_server.start()
        # Both sides reconnect within half a minute.
        wait_for(
            lambda: any(each.claim_id == claim for each in scheduler.outcomes_received), "the outcome has arrived", 200
        )
        assert scheduler.outcome_of(claim).ok
        daemon.terminate()
        assert daemon.wait(fakes.DEADLINE) == 0
    gc.collect()


@pytest.mark.parametrize(
    ("default", "message"),
    [
        ("transport_url = pigeon://roof/", "[DEFAULT] transport_url: "),
        ("state_path = /dev/null", "backend node1@a: lock file /dev/null/locks/node1@a.lock cannot be opened"),
    ],
)
def test_a_wrong_configuration_is_reported_in_one_line(configure: Configure, default: str, message: str) -> None:
    done = subprocess.run(
        [*START, "--config-file", str(configure(default=default))],
        capture_output=True,
        text=True,
        check=False,
        timeout=fakes.DEADLINE,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"tonnage-agent: {message}")
    assert done.stderr.count("\n") == 1


def test_an_unusable_storage_is_tried_again(configure: Configure, start: Start, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    daemon = start(
        configure(
            backend=f"volume_driver = filesystem\nfilesystem_path = {tmp_path / 'file'}\nfilesystem_size_limit_gb = 1"
        )
    )
    log = tmp_path / "agent.log"
    eventually(lambda: "cannot start yet and keeps trying: " in log.read_text())
    assert str(tmp_path / "file") in log.read_text()
    assert "Traceback" not in log.read_text()
    daemon.terminate()
    assert daemon.wait(fakes.DEADLINE) == 0
