# SPDX-License-Identifier: Apache-2.0
"""A temporary folder and its processes, which are removed when the process that created them ends in any way."""

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Self

from tests.servers import base

_WATCHER = pathlib.Path(base.__file__).with_name("watcher.py")


class ProcessFolder:
    """A temporary folder and its processes. A separate watcher kills them and removes it when this process ends."""

    def __init__(self, prefix: str, keep: bool = False) -> None:
        self._prefix = prefix
        self._keep = keep
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=self._prefix))
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", _WATCHER, self.path], stdin=subprocess.PIPE, cwd="/", start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._keep:
            shutil.copytree(self.path, f"{self.path}-kept", symlinks=True)
            print(f"kept: {self.path}-kept", file=sys.stderr)
        assert self._watcher.stdin
        self._watcher.stdin.close()
        self._watcher.wait()

    def watch(self, pid: int) -> None:
        """Kill this process at the end."""
        self._tell(pid, signal.SIGKILL)

    def forget(self, pid: int) -> None:
        """Do not kill this process, because its group has ended and its id may be reused."""
        self._tell(pid, 0)

    def _tell(self, pid: int, number: int) -> None:
        assert self._watcher.stdin
        with self._lock:
            self._watcher.stdin.write(b"%d %d\n" % (pid, number))
            self._watcher.stdin.flush()
