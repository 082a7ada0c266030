# SPDX-License-Identifier: Apache-2.0
"""A real limit of open files, set while ``tonnage-api`` runs."""

import contextlib
import itertools
import os
import resource
import socket
import time
from collections.abc import Iterator, Sequence

import psutil
import pytest
import requests

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment
from tests.servers.base import wait_for

#: Seconds for which the use of the processor is measured. Accepting in a loop would use all of them.
_SECONDS = 5.0

#: Largest share of a processor that the processes may use meanwhile. Each of them has some threads that wake up.
_SHARE = 0.3

#: Most bytes that the log may grow by meanwhile: a line for each attempt to accept would take megabytes.
_GROWTH = 10_000

_IDLE = 300


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy({"one": {"filesystem_size_limit_gb": 3}}) as deployment:
        deployment.start()
        wait_for(deployment.rest.is_healthy, "the health check succeeds")
        yield deployment
        deployment.stop()


def processes(tonnage: Deployment) -> list[psutil.Process]:
    return tonnage.processes["api" if tonnage.distributed else "standalone"].tree()


def first_unused(process: psutil.Process) -> int:
    """Return the lowest number that no open file of a process has. Its limit is one of numbers."""
    used = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
    return next(number for number in itertools.count() if number not in used)


def has_no_clients(tonnage: Deployment) -> bool:
    """Return whether no process of the API has a connection of a client."""
    return not any(
        connection.laddr.port == tonnage.port and connection.raddr
        for process in processes(tonnage)
        for connection in process.net_connections()
        if connection.laddr
    )


@contextlib.contextmanager
def open_files(tonnage: Deployment, more: int) -> Iterator[None]:
    """Let each process of the API open only ``more`` files beside those that it has open, or a few more."""
    tonnage.rest.close()  # with its idle connections
    wait_for(lambda: has_no_clients(tonnage), "the connections are closed")
    limits = []
    for process in processes(tonnage):
        limits.append((process, process.rlimit(resource.RLIMIT_NOFILE)))
        process.rlimit(resource.RLIMIT_NOFILE, (first_unused(process) + more, limits[-1][1][1]))
    try:
        yield
    finally:
        for process, limit in limits:
            process.rlimit(resource.RLIMIT_NOFILE, limit)


@contextlib.contextmanager
def connections(tonnage: Deployment, number: int, sent: bytes) -> Iterator[Sequence[socket.socket]]:
    """Connections on which this was sent, and nothing read."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(number):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", tonnage.port), timeout=60))
            connection.sendall(sent)
            opened.append(connection)
        yield opened


def check_rest(tonnage: Deployment) -> None:
    """Check that the processes use little processor and write few lines."""
    log = tonnage.processes["api" if tonnage.distributed else "standalone"].log
    size = log.stat().st_size
    used = -sum(sum(process.cpu_times()[:2]) for process in processes(tonnage))
    began = time.monotonic()
    time.sleep(_SECONDS)
    elapsed = time.monotonic() - began
    used += sum(sum(process.cpu_times()[:2]) for process in processes(tonnage))
    assert used < _SHARE * elapsed, f"{used:.2f} s of processor in {elapsed:.1f} s"
    assert log.stat().st_size - size < _GROWTH, tonnage.logs()


@pytest.mark.heavy
@on_one_database
def test_no_connection_is_accepted_without_files_and_all_are_when_there_are(tonnage: Deployment) -> None:
    request = f"GET /healthcheck HTTP/1.1\r\nHost: 127.0.0.1:{tonnage.port}\r\nConnection: close\r\n\r\n".encode()
    with open_files(tonnage, 0), connections(tonnage, 50, request) as waiting:
        check_rest(tonnage)
        for connection in waiting:
            connection.settimeout(0.0)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
        # Their files can be opened again.
        for process in processes(tonnage):
            process.rlimit(resource.RLIMIT_NOFILE, process.rlimit(resource.RLIMIT_NOFILE)[1:] * 2)
        for connection in waiting:
            connection.settimeout(60)
            assert connection.recv(12) == b"HTTP/1.1 200"
    assert "cannot open more files (Too many open files)" in tonnage.logs()
    wait_for(tonnage.rest.is_healthy, "the health check succeeds")


@pytest.mark.heavy
@on_one_database
def test_idle_connections_without_files_for_more_keep_nobody_from_an_answer(tonnage: Deployment) -> None:
    with open_files(tonnage, 20), connections(tonnage, _IDLE, b"GET /healthcheck HTTP/1.1\r\nHost: "):
        check_rest(tonnage)
        for _ in range(10):
            answer = requests.get(f"{tonnage.rest.url}/healthcheck", timeout=30)
            assert answer.status_code == 200, answer.text
        check_rest(tonnage)
    wait_for(tonnage.rest.is_healthy, "the health check succeeds")
