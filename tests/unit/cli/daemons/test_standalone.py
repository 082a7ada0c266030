# SPDX-License-Identifier: Apache-2.0
"""``tonnage-standalone`` as a process: all services are there when it says so, and it takes over changed files."""

import signal

import pytest
import requests

from tests.functional.deployment import run_process, run_program
from tests.servers.base import wait_for
from tests.unit.cli.daemons.daemon_files import DaemonFiles, wait_for_line


def pools(files: DaemonFiles) -> set[str]:
    answer = requests.get(f"http://127.0.0.1:{files.port}/v3/scheduler-stats/get_pools", timeout=60)
    return {pool["name"] for pool in answer.json()["pools"]}


def test_it_is_ready_with_its_pools_and_changes_its_backends_on_sighup(files: DaemonFiles) -> None:
    files.make_ledger()
    files.write("a", enabled_extensions="page")
    with run_process("standalone", files.conf) as process:
        wait_for_line(process.log, "Ctrl-C stops it.")
        assert pools(files) == {"h@a#pool1"}
        url = f"http://127.0.0.1:{files.port}"
        shown = process.log.read_text()
        for line in (f"Tonnage is ready: {url}", f"Its web page is {url}/page/", f" explain 100 --url {url}"):
            assert f"{line}\n" in shown
        metrics = requests.get(f"http://127.0.0.1:{files.metrics_ports['scheduler']}/metrics/ledger", timeout=60).text
        assert 'tonnage_backend_up{backend="h@a"} 1' in metrics
        of_requests = requests.get(f"http://127.0.0.1:{files.metrics_ports['api']}/metrics", timeout=60).text
        assert 'code="200",method="GET",route="/v3/scheduler-stats/get_pools"} 1' in of_requests
        files.write("b", enabled_extensions="page")
        process.send(signal.SIGHUP)
        wait_for(lambda: pools(files) == {"h@b#pool1"}, "the new backend is there and the other one is withdrawn")
    assert process.log.read_text().endswith("Tonnage has stopped\n")


def test_an_option_that_an_extension_cannot_use_ends_it_with_one_line(files: DaemonFiles) -> None:
    files.make_ledger()
    conf = files.write("a", enabled_extensions="moves")
    conf.write_text(f"{conf.read_text()}\n[moves]\nhours = 25-30\n")
    ended = run_program("tonnage-standalone", "--config-file", conf)
    assert ended.code == 1
    assert ended.error.splitlines()[-1].endswith(
        "option [moves] hours is '25-30': expected two hours of the day such as 22-06, "
        "the first from 0 to 23 and the second from 0 to 24"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"osapi_volume_listen": "192.0.2.1"}, "osapi_volume_listen = 192.0.2.1"),
        ({"backend_stats_polling_interval": 60}, "[DEFAULT] backend_stats_polling_interval = 60 is too long"),
        ({"scheduler_default_filters": "NoFilter"}, "scheduler_default_filters names 'NoFilter'"),
    ],
)
def test_a_wrong_option_ends_it_with_one_line(files: DaemonFiles, options: dict[str, object], message: str) -> None:
    files.make_ledger()
    ended = run_program("tonnage-standalone", "--config-file", files.write("a", **options))
    assert ended.code == 1
    assert message in ended.error.splitlines()[-1]
    assert "Traceback" not in ended.error
    assert "Tonnage is ready" not in ended.output
