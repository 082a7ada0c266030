# SPDX-License-Identifier: Apache-2.0
"""The keys of ``tonnage top``."""

import os
import re
import select
import sys
import termios
import time
import tty
from typing import Any, Self, TextIO

#: A key as terminals send it: a sequence for an arrow or a page key, or one character.
_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)

_NAMES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"k": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"j": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b" ": "space",
    b"q": "q",
    b"Q": "q",
}


class Keys:
    """Reads single keys while it is entered, usually from standard input. Without a terminal there are no keys."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = sys.stdin if stream is None else stream
        self._descriptor = stream.fileno() if stream is not None and stream.isatty() else None
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None and self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def read(self, seconds: float) -> list[str]:
        """Return the names of the pressed keys that are known; an empty list if there are none for some seconds."""
        if self._descriptor is None:
            time.sleep(seconds)
            return []
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return []
        pressed = os.read(self._descriptor, 256)
        if not pressed:  # the terminal is gone
            return ["q"]
        return [_NAMES[key] for key in _KEY.findall(pressed) if key in _NAMES]
