# SPDX-License-Identifier: Apache-2.0
"""``tonnage-agent`` as a process: a worker for each enabled backend, also after a change of the files."""

import signal

import pytest

from tests.functional.deployment import run_process, run_program
from tests.unit.cli.daemons.daemon_files import DaemonFiles, wait_for_line


def test_backends_get_and_lose_their_workers_on_sighup(files: DaemonFiles) -> None:
    files.write("a")
    with run_process("agent", files.conf) as process:
        wait_for_line(process.log, "Backend h@a is being served")
        files.write("a", "a")
        process.send(signal.SIGHUP)
        wait_for_line(process.log, "The configuration stays as it was: [DEFAULT] enabled_backends names 'a' twice")
        files.write("b")
        process.send(signal.SIGHUP)
        wait_for_line(process.log, "Backend h@a is withdrawn")
        wait_for_line(process.log, "Backend h@b is being served")


@pytest.mark.parametrize(
    ("backends", "options", "message"),
    [
        ((), {}, "enabled_backends is empty"),
        (("a",), {"transport_url": "pigeon://roof/"}, "[DEFAULT] transport_url: "),
        (("a",), {"backend_stats_polling_interval": 60, "service_down_time": 60}, "is too long for service_down_time"),
    ],
)
def test_a_wrong_option_ends_it_before_a_worker_starts(
    files: DaemonFiles, backends: tuple[str, ...], options: dict[str, object], message: str
) -> None:
    ended = run_program("tonnage-agent", "--config-file", files.write(*backends, **options))
    assert ended.code == 1
    [line] = ended.error.splitlines()
    assert line.startswith("tonnage-agent: ")
    assert message in line
