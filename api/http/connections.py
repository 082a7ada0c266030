# SPDX-License-Identifier: Apache-2.0
"""Connections of the built-in server: how long clients are waited for, and answers where no application was asked."""

import contextlib
import errno
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from cheroot import makefile, server

from tonnage.api.http import faults

#: Seconds for which a client is waited for while one request of its comes in, all waiting together: a request holds a
#: thread from its first byte on. As long again it is waited for while it takes :data:`PIECE` bytes of the answer.
PATIENCE = 20.0
PIECE = 2**18

#: Most bytes of a line that is read as a whole, which is the size of a chunk. Lines of headers are read in parts.
_LONGEST_LINE = 1024


class _Patient(socket.SocketIO):
    """One way between a client and us, until :data:`PATIENCE` has run out."""

    def __init__(self, connected: socket.socket, mode: Literal["r", "w"]) -> None:
        super().__init__(connected, mode)
        self._connected = connected
        self._left = PATIENCE

    @property
    def given_up(self) -> bool:
        """Tell whether the client is waited for no more."""
        return self._left <= 0

    def renew(self) -> None:
        """Have patience again."""
        self._left = PATIENCE

    def _wait(self, work: Callable[[Any], int | None], buffer: Any) -> int | None:
        """Do what may wait for the client. Raises ``TimeoutError``, and from then on always."""
        if self.given_up:
            raise TimeoutError("timed out")
        began = time.monotonic()
        try:
            count = self._within_patience(work, buffer)
        except TimeoutError:
            self._left = 0.0
            raise
        self._left -= time.monotonic() - began
        return count

    def _within_patience(self, work: Callable[[Any], int | None], buffer: Any) -> int | None:
        usual = self._connected.gettimeout()
        if usual is not None and usual <= self._left:
            return work(buffer)
        self._connected.settimeout(self._left)
        try:
            return work(buffer)
        finally:
            self._connected.settimeout(usual)


class _Incoming(_Patient):
    """What a client sends."""

    def readinto(self, buffer: Any) -> int | None:
        """Wait for something."""
        return self._wait(super().readinto, buffer)


class _Outgoing(_Patient):
    """What a client takes."""

    _taken = 0

    def write(self, data: Any) -> int | None:
        """Wait until the client takes something."""
        count = self._wait(super().write, data)
        self._taken += count or 0
        if self._taken >= PIECE:
            self._taken = 0
            self.renew()
        return count


class _Reader(makefile.StreamReader):
    """Reads what comes in, at most ``longest`` bytes of a body at once."""

    def __init__(self, incoming: _Incoming, size: int, longest: int) -> None:
        super(makefile.StreamReader, self).__init__(incoming, size)  # not of the socket itself
        self.bytes_read = 0
        self._longest = longest

    def read(self, size: int) -> bytes:  # type: ignore[override]
        """Read some bytes: of a chunk of a body as many as it announces, which would all be kept in memory."""
        if size > self._longest:
            raise OSError(errno.EFBIG, "more is announced than is read at once")
        return bytes(super().read(size))  # type: ignore[no-untyped-call]

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line, or what ``size`` allows of it. Raises ``ValueError`` for one that would be kept without end."""
        if size is not None and 0 <= size <= _LONGEST_LINE:
            return super().readline(size)
        line = super().readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise ValueError("a line without an end")
        return line


class _Writer(makefile.StreamWriter):
    """Writes what goes out."""

    def __init__(self, outgoing: _Outgoing, size: int) -> None:
        super(makefile.StreamWriter, self).__init__(outgoing, size)  # not to the socket itself
        self.bytes_written = 0


class _Request(server.HTTPRequest):
    """A request as it comes in, before the application sees it."""

    def simple_response(self, status: str, msg: str = "") -> None:
        """Answer in the application's place, and as it would: with an error as clients of the API know them."""
        code = int(status[:3])
        body = msgspec.json.encode(faults.body(code, msg or status[4:]))
        head = (
            f"{self.server.protocol} {status}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client has gone
            self.conn.wfile.write(head.encode("latin-1") + body)

    def send_headers(self) -> None:
        """Begin the answer; what is left of a body, or follows its last chunk, must not be taken for a request."""
        if self.chunked_read or self.conn.incoming.given_up:
            self.close_connection = True
        super().send_headers()


class Connection(server.HTTPConnection):
    """A connection with a client."""

    RequestHandlerClass = _Request

    def __init__(self, served_by: Any, connected: socket.socket, make: Any = makefile.MakeFile) -> None:
        super().__init__(served_by, connected, make)
        self.incoming, self._outgoing = _Incoming(connected, "r"), _Outgoing(connected, "w")
        self.rfile = _Reader(self.incoming, self.rbufsize, served_by.longest_read)
        self.wfile = _Writer(self._outgoing, self.wbufsize)
        self._rests = True

    def communicate(self) -> bool:
        """Read and answer a request; tell whether the connection stays open."""
        self._rests = False
        self.incoming.renew()
        self._outgoing.renew()
        self._rests = self.is_let_in() and bool(super().communicate())  # type: ignore[no-untyped-call]
        return self._rests

    def is_let_in(self) -> bool:
        """Tell whether the client may ask, before each request of its."""
        return True

    def close(self) -> None:
        """End the connection, or answer first what the client has said on it before it could know of the end.

        cheroot ends what has rested for too long without a look at what has come meanwhile, which would be lost.
        """
        if self._rests and self.something_came():
            self._rests = False
            self.server.process_conn(self)
        else:
            self.end()

    def end(self) -> None:
        """End the connection, whatever has come."""
        self._rests = False
        super().close()

    def something_came(self) -> bool:
        """Tell whether the client has said something, or has gone."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))
