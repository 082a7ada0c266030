# SPDX-License-Identifier: Apache-2.0
"""``tonnage-api`` as a process: it serves the API and the metrics, and tells what keeps it from that."""

import socket

import requests

from tests.functional.deployment import run_process, run_program
from tests.unit.cli.daemons.daemon_files import DaemonFiles, wait_for_line


def test_the_api_and_the_metrics_are_served_until_a_signal(files: DaemonFiles) -> None:
    files.make_ledger()
    with run_process("api", files.write()) as process:
        wait_for_line(process.log, f"listens on http://127.0.0.1:{files.port}")
        wait_for_line(process.log, f"listens on http://127.0.0.1:{files.metrics_ports['api']}")
        types = requests.get(f"http://127.0.0.1:{files.port}/v3/types", timeout=60).json()["volume_types"]
        assert [volume_type["name"] for volume_type in types] == ["__DEFAULT__"]
        text = requests.get(f"http://127.0.0.1:{files.metrics_ports['api']}/metrics", timeout=60).text
        assert 'tonnage_api_requests_total{code="200",method="GET",route="/v3/types"} 1' in text
    assert "Stopping" in process.log.read_text()


def test_a_port_of_another_process_ends_it_with_the_name_of_the_option(files: DaemonFiles) -> None:
    files.make_ledger()
    with socket.create_server(("127.0.0.1", files.metrics_ports["api"])):
        ended = run_program("tonnage-api", "--config-file", files.write())
    assert ended.code == 1
    line = ended.error.splitlines()[-1]
    assert f"api_listen_port = {files.metrics_ports['api']}: Address already in use" in line
    assert "Traceback" not in ended.error
