# SPDX-License-Identifier: Apache-2.0
"""``tonnage-scheduler`` as a process: its metrics, and the files that it takes over or not."""

import signal

import requests

from tests.functional.deployment import run_process, run_program
from tests.unit.cli.daemons.daemon_files import DaemonFiles, wait_for_line


def test_it_serves_metrics_and_takes_over_usable_files_alone(files: DaemonFiles) -> None:
    files.make_ledger()
    files.write()
    with run_process("scheduler", files.conf) as process:
        wait_for_line(process.log, "Scheduler is ready")
        text = requests.get(f"http://127.0.0.1:{files.metrics_ports['scheduler']}/metrics", timeout=60).text
        assert "tonnage_scheduler_decisions_total" in text
        files.write(scheduler_default_filters="NoFilter")
        process.send(signal.SIGHUP)
        wait_for_line(process.log, "The configuration stays as it was: scheduler_default_filters names 'NoFilter'")
        files.write(scheduler_default_filters="CapacityFilter")
        process.send(signal.SIGHUP)
        wait_for_line(process.log, "scheduler_default_filters changed from")
        assert process.running


def test_a_database_without_tables_ends_it_with_the_command_that_makes_them(files: DaemonFiles) -> None:
    ended = run_program("tonnage-scheduler", "--config-file", files.write())
    assert ended.code == 1
    assert ended.error.splitlines()[-1].startswith("tonnage-scheduler: there is no database ")
    assert "tonnage-manage db sync" in ended.error
