# SPDX-License-Identifier: Apache-2.0
"""Standard output and error of commands, including the case that their reader is gone."""

import contextlib
import io
import os
import select
import signal
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def flushed(prog: str, status: int = 1) -> Iterator[None]:
    """Flush standard output at the end. Exit quietly if its reader is gone, for example in a pipe to ``head``.

    Characters that the terminal's encoding does not have are printed as question marks.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            yield
        finally:
            _flush()
    except OSError as error:
        # The interpreter would write the rest of the buffer again at its exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(128 + signal.SIGPIPE)
        print_error(f"{prog}: {one_line(error)}")
        sys.exit(status)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def is_closed() -> bool:
    """Return whether standard output is a pipe without a reader."""
    if sys.stdout is None:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def print_error(line: str) -> None:
    """Print on standard error. Ignore a closed terminal."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line, or the name of its class if it has none."""
    return " ".join(str(error).split()) or type(error).__name__
