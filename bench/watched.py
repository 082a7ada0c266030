# SPDX-License-Identifier: Apache-2.0
"""A temporary folder and the processes that work in it: gone when whoever made them is, however that ends."""

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


class Folder:
    """A temporary folder, and the processes that work in it. However this process ends, they end and it is removed."""

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
        """Have a process killed at the end."""
        self._tell(pid, signal.SIGKILL)

    def forget(self, pid: int) -> None:
        """Note that a process and all of its group are gone: its id may soon be somebody else's."""
        self._tell(pid, 0)

    def _tell(self, pid: int, number: int) -> None:
        assert self._watcher.stdin
        with self._lock:
            self._watcher.stdin.write(b"%d %d\n" % (pid, number))
            self._watcher.stdin.flush()
