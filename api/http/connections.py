# SPDX-License-Identifier: Apache-2.0
"""Connections of the built-in server: time limits for slow clients, and error responses without the application."""

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

#: Most seconds that the server waits for a client in total while it receives one request, because a request occupies
#: a thread from its first byte on. The limit starts anew for each :data:`CHUNK_SIZE` bytes of the response.
CLIENT_TIMEOUT = 20.0
CHUNK_SIZE = 2**18

#: Most bytes of a line that is read as a whole, such as the size of a chunk. Lines of headers are read in parts.
_MAX_LINE = 1024


class _TimedSocket(socket.SocketIO):
    """One direction of a connection; the server waits at most :data:`CLIENT_TIMEOUT` seconds in total."""

    def __init__(self, connected: socket.socket, mode: Literal["r", "w"]) -> None:
        super().__init__(connected, mode)
        self._connected = connected
        self._seconds_left = CLIENT_TIMEOUT

    @property
    def timed_out(self) -> bool:
        """Whether the time limit has passed."""
        return self._seconds_left <= 0

    def reset_timeout(self) -> None:
        """Start the time limit anew."""
        self._seconds_left = CLIENT_TIMEOUT

    def _wait(self, transfer: Callable[[Any], int | None], buffer: Any) -> int | None:
        """Call a function that may wait for the client. Raises ``TimeoutError``, and after the first one always."""
        if self.timed_out:
            raise TimeoutError("timed out")
        began = time.monotonic()
        try:
            count = self._transfer_in_time(transfer, buffer)
        except TimeoutError:
            self._seconds_left = 0.0
            raise
        self._seconds_left -= time.monotonic() - began
        return count

    def _transfer_in_time(self, transfer: Callable[[Any], int | None], buffer: Any) -> int | None:
        usual = self._connected.gettimeout()
        if usual is not None and usual <= self._seconds_left:
            return transfer(buffer)
        self._connected.settimeout(self._seconds_left)
        try:
            return transfer(buffer)
        finally:
            self._connected.settimeout(usual)


class _Incoming(_TimedSocket):
    """The direction from the client."""

    def readinto(self, buffer: Any) -> int | None:
        """Wait for bytes and read them into a buffer."""
        return self._wait(super().readinto, buffer)


class _Outgoing(_TimedSocket):
    """The direction to the client."""

    _sent = 0

    def write(self, data: Any) -> int | None:
        """Wait until the client accepts bytes, and send them."""
        count = self._wait(super().write, data)
        self._sent += count or 0
        if self._sent >= CHUNK_SIZE:
            self._sent = 0
            self.reset_timeout()
        return count


class _Reader(makefile.StreamReader):
    """Reads requests, at most ``max_size`` bytes of a body at once."""

    def __init__(self, incoming: _Incoming, buffer_size: int, max_size: int) -> None:
        super(makefile.StreamReader, self).__init__(incoming, buffer_size)  # not of the socket itself
        self.bytes_read = 0
        self._max_size = max_size

    def read(self, size: int) -> bytes:  # type: ignore[override]
        """Read some bytes. For a chunk of a body ``size`` is the length that it declares, all of it for memory.

        Raises ``OSError`` for more than the maximum.
        """
        if size > self._max_size:
            raise OSError(errno.EFBIG, "more is announced than is read at once")
        return bytes(super().read(size))  # type: ignore[no-untyped-call]

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line, or at most ``size`` bytes of it. Raises ``ValueError`` for a line without a bounded length."""
        if size is not None and 0 <= size <= _MAX_LINE:
            return super().readline(size)
        line = super().readline(_MAX_LINE)
        if len(line) == _MAX_LINE and not line.endswith(b"\n"):
            raise ValueError("a line without an end")
        return line


class _Writer(makefile.StreamWriter):
    """Writes responses."""

    def __init__(self, outgoing: _Outgoing, size: int) -> None:
        super(makefile.StreamWriter, self).__init__(outgoing, size)  # not to the socket itself
        self.bytes_written = 0


class _Request(server.HTTPRequest):
    """A request before the application is called."""

    def simple_response(self, status: str, msg: str = "") -> None:
        """Send an error without the application, in the format of the API."""
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
        """Send the headers, and close afterwards if unread parts of a body could be taken for a request."""
        if self.chunked_read or self.conn.incoming.timed_out:
            self.close_connection = True
        super().send_headers()


class Connection(server.HTTPConnection):
    """A connection with a client."""

    RequestHandlerClass = _Request

    def __init__(self, served_by: Any, connected: socket.socket, make: Any = makefile.MakeFile) -> None:
        super().__init__(served_by, connected, make)
        self.incoming, self._outgoing = _Incoming(connected, "r"), _Outgoing(connected, "w")
        self.rfile = _Reader(self.incoming, self.rbufsize, served_by.max_read_size)
        self.wfile = _Writer(self._outgoing, self.wbufsize)
        self._idle = True

    def communicate(self) -> bool:
        """Read and answer a request. Return whether the connection stays open."""
        self._idle = False
        self.incoming.reset_timeout()
        self._outgoing.reset_timeout()
        self._idle = self.is_admitted() and bool(super().communicate())  # type: ignore[no-untyped-call]
        return self._idle

    def is_admitted(self) -> bool:
        """Return whether the client may send a request. The server calls this before each request."""
        return True

    def close(self) -> None:
        """Close the connection, or first answer a request that the client sent before it could know of the close.

        cheroot closes connections that are idle for too long and ignores input that arrived in the meantime.
        """
        if self._idle and self.has_input():
            self._idle = False
            self.server.process_conn(self)
        else:
            self.close_now()

    def close_now(self) -> None:
        """Close the connection and discard its input."""
        self._idle = False
        super().close()

    def has_input(self) -> bool:
        """Return whether the client has sent bytes or closed the connection."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))
