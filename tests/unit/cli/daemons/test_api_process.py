# SPDX-License-Identifier: Apache-2.0
"""The process of the REST API in ``tonnage-standalone``: neither it nor the standalone outlives the other."""

import signal
import socket
from collections.abc import Iterator

import pytest
import requests

from tests.functional.deployment import Process, run_process, run_program
from tests.servers.base import wait_for
from tests.unit.cli.daemons.daemon_files import DaemonFiles, wait_for_line


@pytest.fixture
def standalone(files: DaemonFiles) -> Iterator[Process]:
    """A standalone that is ready; a test may end it."""
    files.make_ledger()
    process = Process("standalone", files.write("a"))
    process.start()
    try:
        wait_for_line(process.log, "Ctrl-C stops it.")
        yield process
    finally:
        process.request_stop()
        process.reap()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_the_end_of_the_api_ends_the_standalone_with_one_line(standalone: Process, number: signal.Signals) -> None:
    _, api = standalone.tree()
    api.send_signal(number)
    assert standalone.wait() == 1
    log = standalone.log.read_text()
    assert f"tonnage-standalone: the process of the REST API has ended with signal {number:d}\n" in log
    assert "Traceback" not in log


def test_the_end_of_the_standalone_ends_the_api(files: DaemonFiles, standalone: Process) -> None:
    _, api = standalone.tree()
    standalone.send(signal.SIGKILL)
    standalone.wait()
    api.wait(60)
    with socket.create_server(("127.0.0.1", files.port)):
        """Its port is free."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_api_leaves_signals_to_the_standalone(
    files: DaemonFiles, standalone: Process, number: signal.Signals
) -> None:
    """A terminal and systemd send them to both."""
    _, api = standalone.tree()
    api.send_signal(number)
    assert requests.get(f"http://127.0.0.1:{files.port}/healthcheck", timeout=60).status_code == 200
    standalone.request_stop(signal.SIGINT, whole_group=True)
    assert standalone.wait() == 0


def test_changed_limits_are_those_of_the_api_too(files: DaemonFiles) -> None:
    files.make_ledger()
    files.write("a", quota_volumes=7)

    def limit() -> int:
        quotas = requests.get(f"http://127.0.0.1:{files.port}/v3/os-quota-sets/demo", timeout=60).json()
        return int(quotas["quota_set"]["volumes"])

    with run_process("standalone", files.conf) as process:
        wait_for_line(process.log, "Ctrl-C stops it.")
        assert limit() == 7
        files.write("a", quota_volumes=3)
        process.send(signal.SIGHUP)
        wait_for(lambda: limit() == 3, "the API has the new limit")
        wait_for_line(process.log, "The configuration has been read again")
        assert process.log.read_text().count("quota_volumes") == 1


def test_an_unusable_file_of_the_api_ends_it_with_one_line(files: DaemonFiles) -> None:
    files.make_ledger()
    conf = files.write("a")
    conf.write_text(f"{conf.read_text()}\n[oslo_policy]\npolicy_file = {conf}\n")
    ended = run_program("tonnage-standalone", "--config-file", conf)
    assert ended.code == 1
    assert ended.error.splitlines()[-1].startswith("tonnage-standalone: ")
    assert "Traceback" not in ended.error


@pytest.mark.parametrize("daemon", ["scheduler", "api"])
def test_a_port_of_another_process_ends_both_with_the_name_of_the_option(files: DaemonFiles, daemon: str) -> None:
    files.make_ledger()
    port = files.metrics_ports[daemon]
    with socket.create_server(("127.0.0.1", port)):
        ended = run_program("tonnage-standalone", "--config-file", files.write("a"))
    assert ended.code == 1
    assert f"{daemon}_listen_port = {port}: Address already in use" in ended.error.splitlines()[-1]
    assert "Traceback" not in ended.error
