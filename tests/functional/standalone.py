# SPDX-License-Identifier: Apache-2.0
"""``tonnage-standalone`` as a process of its own, on real files and a free port."""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMMANDS = pathlib.Path(sys.executable).parent
_READY = re.compile(r"Tonnage is ready: (\S+)")
_START = 150.0
_STOP = 60.0

CONF = """\
[DEFAULT]
host = box
state_path = {folder}
enabled_backends = thin, thick
backend_stats_polling_interval = 1
listing_interval = 2
osapi_volume_listen_port = 0
transport_url = kombu+memory://
quota_volumes = -1
quota_gigabytes = -1
{extra}

[database]
connection = sqlite:///$state_path/tonnage.sqlite

[thin]
volume_driver = filesystem
volume_backend_name = thin
filesystem_path = $state_path/volumes/thin
filesystem_size_limit_gb = 20
filesystem_provisioning = thin
max_over_subscription_ratio = {ratio}

[thick]
volume_driver = filesystem
volume_backend_name = thick
filesystem_path = $state_path/volumes/thick
filesystem_size_limit_gb = 2
filesystem_provisioning = thick
"""


@dataclass(frozen=True, slots=True)
class Standalone:
    """A running one. ``url`` is where its API listens; its volumes are below ``folder``."""

    url: str
    folder: pathlib.Path
    process: subprocess.Popen[str]

    def file(self, pool: str, volume_id: str) -> pathlib.Path | None:
        """Return the file of a volume, None if there is none."""
        found = list((self.folder / "volumes" / pool).rglob(f"*{volume_id}*"))
        return found[0] if found else None


@contextlib.contextmanager
def standalone(folder: pathlib.Path, extra: str = "", ratio: float = 2.0) -> Iterator[Standalone]:
    """Run one in ``folder``; at the end it must stop cleanly.

    ``extra`` are lines for ``[DEFAULT]``, ``ratio`` is the over-subscription ratio of its thin pool of 20 GiB.
    """
    conf = folder / "tonnage.conf"
    conf.write_text(CONF.format(folder=folder, extra=extra, ratio=ratio))
    subprocess.run([COMMANDS / "tonnage-manage", "--config-file", conf, "db", "sync"], check=True, timeout=_START)
    process = subprocess.Popen(
        [COMMANDS / "tonnage-standalone", "--config-file", conf],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = _Output(process)
    try:
        yield Standalone(output.wait_for(_READY), folder, process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            output.close()
    assert code == 0, output.text()


class _Output:
    """What a process writes, read all the time so that it never waits for its reader."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for(self, pattern: re.Pattern[str]) -> str:
        """Return the first group of the first line that matches."""
        found: re.Match[str] | None = None

        def seen() -> bool:
            nonlocal found
            found = next((match for line in self._lines if (match := pattern.search(line))), None)
            return found is not None or self._process.poll() is not None

        wait_until(seen, _START)
        assert found is not None, self.text()
        return found[1]

    def text(self) -> str:
        return "".join(self._lines)

    def close(self) -> None:
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Look again and again until it is so. Fails if it is not so in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.05)
