# SPDX-License-Identifier: Apache-2.0
"""The option ``--watch``: a command that is repeated until Ctrl-C."""

import contextlib
import io
import sys
import time
from collections.abc import Callable
from typing import NoReturn

#: Moves the cursor of a terminal to its first line and clears the screen.
_CLEAR = "\x1b[H\x1b[2J"


class _Screen(io.StringIO):
    """The next screen of a terminal."""

    def isatty(self) -> bool:
        """Return True: the text is for a terminal."""
        return True


def repeat(run: Callable[[], int], seconds: float, sleep: Callable[[float], None] = time.sleep) -> NoReturn:
    """Run a command again and again, with a pause of ``seconds`` after each run.

    On a terminal each output replaces the one before, as soon as it is complete. Elsewhere the outputs follow each
    other. Ctrl-C and errors of the command end it.
    """
    while True:
        if sys.stdout.isatty():
            screen = _Screen()
            with contextlib.redirect_stdout(screen):
                run()
            print(f"{_CLEAR}{time.strftime('%H:%M:%S')}, every {seconds:g} s\n{screen.getvalue()}", end="")
        else:
            run()
        sys.stdout.flush()
        sleep(seconds)
