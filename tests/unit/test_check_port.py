# SPDX-License-Identifier: Apache-2.0
"""Tests of the look at the port of the REST API, which ``make run`` begins with."""

import pathlib
import socket
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def check(conf: pathlib.Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([ROOT / "tools" / "check-port.sh", conf], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("line", ["osapi_volume_listen_port = {}", "osapi_volume_listen_port={}\n[thin]\n"])
def test_a_port_that_is_taken_is_named_with_the_file_and_the_way_out(tmp_path: pathlib.Path, line: str) -> None:
    conf = tmp_path / "my.conf"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        conf.write_text(f"[DEFAULT]\n# osapi_volume_listen_port = 1\n{line.format(port)}\n")
        taken = check(conf)
    assert (taken.returncode, taken.stdout, len(taken.stderr.splitlines())) == (1, "", 1)
    assert taken.stderr.startswith(f"tonnage: a program listens on 127.0.0.1:{port} already (osapi_volume_listen_port")
    assert str(conf) in taken.stderr
    assert taken.stderr.endswith("choose another port and run 'make run CONF=COPY'\n")
    free = check(conf)
    assert (free.returncode, free.stdout, free.stderr) == (0, "", "")


def test_a_value_that_is_no_port_is_left_to_the_program(tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "my.conf"
    conf.write_text("[DEFAULT]\nosapi_volume_listen_port = no number\n")
    assert check(conf).returncode == 0
