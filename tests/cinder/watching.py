# SPDX-License-Identifier: Apache-2.0
"""A shadow beside a private Cinder, as the processes that an operator starts."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
from typing import Any, Self

from tests.functional.deployment import COMMANDS
from tests.servers import base

_CONFIGURATION = """\
[DEFAULT]
max_over_subscription_ratio = 20.0
[database]
connection = sqlite:///{folder}/shadow.sqlite
[cinder_shadow]
transport_url = {bus}
cinder_connection = {database}
poll_interval = 0.5
full_poll_interval = 5
queue_messages = {messages}
stale_after = 120
"""


class Watch:
    """The shadow's process, and its record. A context manager."""

    def __init__(self, folder: pathlib.Path, database: str, bus: str, messages: int = 20000) -> None:
        self._folder = folder
        self._conf = folder / "shadow.conf"
        self._conf.write_text(_CONFIGURATION.format(folder=folder, database=database, bus=bus, messages=messages))
        self._log = folder / "shadow.log"

    def __enter__(self) -> Self:
        sync = [COMMANDS / "tonnage-manage", "--config-file", self._conf, "db", "sync"]
        subprocess.run(sync, check=True, capture_output=True)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        """The log of the processes so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Start the shadow, and wait until it taps the bus."""
        taps = self.log.count("is tapped")
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [COMMANDS / "tonnage-cinder-shadow", "--config-file", self._conf],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        base.wait_for(lambda: self._is_tapped(taps), "the shadow taps the bus")

    def _is_tapped(self, taps: int) -> bool:
        assert self._process.poll() is None, self.log
        return self.log.count("is tapped") > taps

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the shadow."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill the shadow at once."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def report(self) -> dict[str, Any]:
        """Return the output of ``tonnage cinder``."""
        done = subprocess.run(
            [COMMANDS / "tonnage", "--config-file", self._conf, "cinder", "-f", "json", "--rows", "0"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 3), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def decisions(self) -> dict[str, int]:
        """Return the number of decisions by verdict."""
        return {row["verdict"]: row["decisions"] for row in self.report()["totals"]}
