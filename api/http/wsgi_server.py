# SPDX-License-Identifier: Apache-2.0
"""Tornado's HTTP server in front of a WSGI application on threads.

An event loop receives requests and sends responses. A thread gets a request when all of it has arrived, so a slow
client occupies no thread.

Tornado's own WSGIContainer, waitress, hypercorn, uvicorn with a2wsgi, and cheroot were tried in November 2026 in place
of this module. None of them closes an idle connection when files run out, or answers all requests that arrived before a
stop; only Tornado ends slow headers, bodies and handshakes in time. gunicorn forks, and Granian does not embed WSGI.
Here are, on top of Tornado, these limits, the check of client certificates, and the stop.
"""

import asyncio
import errno
import io
import logging
import math
import re
import resource
import select
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent import futures
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias, cast
from urllib import parse

import msgspec
from tornado import http1connection, httpserver, httputil, iostream

from tonnage.api.http import faults
from tonnage.api.http.http_request import WsgiApp

LOG = logging.getLogger(__name__)

#: Bytes of a response that are sent at a time.
CHUNK_SIZE = 2**18

#: Most bytes of a body above the limit that are received and discarded: a client that is still sending does not read
#: the response.
_DISCARDED_SIZE = 2**20

#: Most bytes of the headers of a request. Up to the second number there is a response; then the connection is closed.
_MAX_HEADERS = 2**16
_MAX_RECEIVED_HEADERS = 2**17

#: The share of the open files for connections of clients; the rest is for the database, the message bus and the log.
_CONNECTIONS_SHARE = 0.75

#: Errors of a process, or a system, without file descriptors or memory for another connection.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

#: Seconds for which no connection is accepted after such an error.
_ACCEPT_PAUSE = 1.0

#: Seconds between two warnings of such errors.
_WARNING_INTERVAL = 60.0

#: Most connections that are accepted before the event loop does other work.
_ACCEPTED_AT_ONCE = 128

#: Returns the TLS context of a new connection.
TlsContexts: TypeAlias = Callable[[], ssl.SSLContext]

_HOST = re.compile(r"[^\s,/@]*")
#: Statuses of responses without a body.
_BODILESS = (204, 304)

#: Seconds between the looks of a stopping server at its connections.
_POLL_INTERVAL = 0.01

#: Seconds that a stopping server waits for the rest of a request that has begun to arrive.
_ARRIVAL_TIMEOUT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server.

    A server handles at most ``threads`` requests at a time. It keeps an idle connection for ``client_timeout`` seconds,
    and waits ``transfer_timeout`` seconds for the body of a request, and for each :data:`CHUNK_SIZE` bytes of a
    response. It asks the system for ``max_files`` open files: headers on all connections together take at most 1.6 GB.
    It lets accepted requests run for ``stop_timeout`` seconds when it stops. It passes at most ``max_body_size`` bytes
    of a body and one more to the application, which rejects such a request. With ``anonymous_paths`` a client without a
    certificate may request only these paths, without a body; None: certificates do not matter.
    """

    threads: int
    client_timeout: int
    stop_timeout: int
    max_body_size: int
    anonymous_paths: frozenset[str] | None = None
    transfer_timeout: float = 20.0
    max_files: int = 16384


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes

    @classmethod
    def of_error(cls, status: int, message: str) -> "_Response":
        """Return an error without the application, in the format of the API."""
        body = msgspec.json.encode(faults.body(status, message))
        return cls(status, HTTPStatus(status).phrase, [("Content-Type", "application/json")], body)


class WsgiServer(httpserver.HTTPServer):
    """The HTTP server of an application. Its methods are called on the event loop."""

    def initialize(  # type: ignore[override]
        self, application: WsgiApp, limits: ServerLimits, tls: TlsContexts | None, address: tuple[str, int]
    ) -> None:
        """Initialize the server; Tornado's constructor calls this.

        ``tls`` returns the context of a new connection; None: without TLS. The address is for the application.
        """
        super().initialize(
            self,
            max_header_size=_MAX_RECEIVED_HEADERS,
            idle_connection_timeout=limits.client_timeout,
            body_timeout=limits.transfer_timeout,
            max_body_size=sys.maxsize,
        )
        self.limits, self.address, self.stopping = limits, address, False
        self._tls = tls
        self.application = application
        self.threads = futures.ThreadPoolExecutor(limits.threads, thread_name_prefix="request")
        self._max_connections = int(_raise_file_limit(limits.max_files) * _CONNECTIONS_SHARE)
        self._listening: list[socket.socket] = []
        self._warned_at = -math.inf
        #: The current request of each connection. The connection that waits longest comes first.
        self._requests: dict[object, _Request] = {}

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections on these listening sockets."""
        for listening in sockets:
            self._listening.append(listening)
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def stop(self) -> None:
        """Accept no more connections."""
        loop = asyncio.get_running_loop()
        for listening in self._listening:
            loop.remove_reader(listening)
            listening.close()
        self._listening.clear()
        super().stop()

    def _accept(self, listening: socket.socket) -> None:
        """Accept the connections that wait. Without file descriptors close one that idles, or pause."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, address = listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._warn_of_exhaustion(error)
                if not self._close_longest_waiting():
                    self._pause(listening)
                    return
                continue
            if self._tls is not None:
                # Sessions belong to a context. Those of an earlier one, with its certificates, are not resumed.
                self.ssl_options = self._tls()
            self._handle_connection(connection, address)

    def _pause(self, listening: socket.socket) -> None:
        """Leave the connections in the queue of the system for a while, as each attempt to accept one would fail."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(_ACCEPT_PAUSE, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _warn_of_exhaustion(self, error: OSError) -> None:
        """Log the error, at most once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _WARNING_INTERVAL:
            self._warned_at = now
            LOG.warning(
                "Connections wait, because the process cannot open more files (%s): idle connections are closed; allow "
                "more open files, with LimitNOFILE or ulimit -n",
                error.strerror,
            )

    def _close_longest_waiting(self) -> bool:
        """Close the connection that waits longest for a request; return whether there is one."""
        idle = (connection for connection, waiting in self._requests.items() if not waiting.answering)
        oldest = next(idle, None)
        if oldest is None:
            return False
        self._requests.pop(oldest).close()
        return True

    def start_request(self, server_conn: object, request_conn: httputil.HTTPConnection) -> httputil.HTTPMessageDelegate:
        """Wait for a request on a connection. If there are too many connections, close the one that waits longest."""
        self._requests.pop(server_conn, None)
        self._requests[server_conn] = request = _Request(self, cast(http1connection.HTTP1Connection, request_conn))
        if len(self._requests) > self._max_connections:
            self._close_longest_waiting()
        return request

    def on_close(self, server_conn: object) -> None:
        self._requests.pop(server_conn, None)
        super().on_close(server_conn)

    async def drain(self) -> None:
        """Accept no more connections, and wait at most ``stop_timeout`` seconds for the requests that have arrived."""
        await asyncio.sleep(_POLL_INTERVAL)
        self.stop()
        self.stopping = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._requests and (waited := loop.time() - began) < self.limits.stop_timeout:
            for request in list(self._requests.values()):
                request.close_unless_needed(begun=waited < _ARRIVAL_TIMEOUT)
            await asyncio.sleep(_POLL_INTERVAL)
        await self.close_all_connections()
        self.threads.shutdown(wait=False, cancel_futures=True)


class _Request(httputil.HTTPMessageDelegate):
    """A request on a connection, from the wait for its first byte to the last byte of the response."""

    def __init__(self, server: WsgiServer, connection: http1connection.HTTP1Connection) -> None:
        self._server, self._connection = server, connection
        self._body, self._size = bytearray(), 0
        self._environ: dict[str, Any] = {}
        self._begun = self.answering = self._is_refused = False
        self._sending: asyncio.Task[None] | None = None

    def headers_received(
        self, start_line: httputil.RequestStartLine | httputil.ResponseStartLine, headers: httputil.HTTPHeaders
    ) -> None:
        self._begun = True
        if self._connection.stream.closed():
            raise httputil.HTTPInputError("the client has gone and left requests behind")
        start_line = cast(httputil.RequestStartLine, start_line)
        hosts = headers.get_list("Host")
        if len(hosts) > 1 or not _HOST.fullmatch("".join(hosts)) or (not hosts and start_line.version != "HTTP/1.0"):
            raise httputil.HTTPInputError("not exactly one valid Host header")
        self._environ = _environ(start_line, headers, self._connection.context, self._server.address)
        if len(start_line.path) + sum(len(name) + len(value) for name, value in headers.get_all()) > _MAX_HEADERS:
            self._respond(_Response.of_error(431, f"The headers are too large: at most {_MAX_HEADERS} bytes are read."))
        elif self._server.limits.anonymous_paths is not None and not self._may_request():
            self._is_refused = True
            self._respond(_Response.of_error(403, "This path is only for clients with a certificate."))

    def _may_request(self) -> bool:
        """Return whether the client has a certificate, or may send this request without one."""
        transport = self._connection.stream.socket
        if isinstance(transport, ssl.SSLSocket) and transport.getpeercert():
            return True
        anonymous_paths = self._server.limits.anonymous_paths or ()
        has_body = "CONTENT_LENGTH" in self._environ or "HTTP_TRANSFER_ENCODING" in self._environ
        return self._environ["PATH_INFO"] in anonymous_paths and not has_body

    def data_received(self, chunk: bytes) -> None:
        """Store a part of the body, up to the limit."""
        if self._is_refused:
            self.close()
            return
        limit = self._server.limits.max_body_size
        self._body += chunk[: limit + 1 - len(self._body)]
        self._size += len(chunk)
        if self._size > limit + _DISCARDED_SIZE:
            self.finish()

    def finish(self) -> None:
        """Have a thread pass the request to the application."""
        if not self.answering:
            self.answering = True
            self._environ["wsgi.input"] = io.BytesIO(self._body)
            loop = asyncio.get_running_loop()
            self._server.threads.submit(_call, self._server.application, self._environ, loop, self._respond)

    def on_connection_close(self) -> None:
        """Do nothing; the server forgets the connection."""

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def close_unless_needed(self, *, begun: bool) -> None:
        """Close the connection unless a request on it is answered, or unless one has ``begun`` to arrive."""
        if self.answering or self._connection.stream.closed() or (begun and (self._begun or self._has_input())):
            return
        self.close()

    def _has_input(self) -> bool:
        poll = select.poll()
        poll.register(self._connection.stream.socket, select.POLLIN)
        return bool(poll.poll(0))

    def _respond(self, response: _Response) -> None:
        headers = httputil.HTTPHeaders({"Server": "tonnage", "Date": httputil.format_timestamp(time.time())})
        for name, value in response.headers:
            headers.add(name, value)
        if self._server.stopping:
            headers["Connection"] = "close"
        body = response.body
        if response.status not in _BODILESS and "Content-Length" not in headers:
            headers["Content-Length"] = str(len(body))
        if response.status in _BODILESS or self._environ["REQUEST_METHOD"] == "HEAD":
            body = b""
        start_line = httputil.ResponseStartLine("HTTP/1.1", response.status, response.reason)
        written = self._connection.write_headers(start_line, headers, body[:CHUNK_SIZE])
        if written.done() and len(body) <= CHUNK_SIZE:
            self._finish_response()
        else:
            self._sending = asyncio.create_task(self._send(written, body[CHUNK_SIZE:]))

    async def _send(self, written: Awaitable[None], remaining_body: bytes) -> None:
        """Send the rest of a large response, and close the connection if the client does not read it."""
        timeout = self._server.limits.transfer_timeout
        try:
            for begin in range(0, len(remaining_body), CHUNK_SIZE):
                await asyncio.wait_for(written, timeout)
                written = self._connection.write(remaining_body[begin : begin + CHUNK_SIZE])
            await asyncio.wait_for(written, timeout)
            self._finish_response()
        except (TimeoutError, iostream.StreamClosedError):
            self.close()

    def _finish_response(self) -> None:
        self._connection.finish()
        if self._server.stopping:
            self.close()


def _environ(
    start_line: httputil.RequestStartLine, headers: httputil.HTTPHeaders, client: Any, address: tuple[str, int]
) -> dict[str, Any]:
    """Return the WSGI environment of a request of a client to the server's address, without the body."""
    path, _, query = start_line.path.partition("?")
    environ = {
        "REQUEST_METHOD": start_line.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": parse.unquote_to_bytes(path.encode("latin-1")).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": start_line.version,
        "SERVER_NAME": address[0],
        "SERVER_PORT": str(address[1]),
        "REMOTE_ADDR": client.remote_ip,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": client.protocol,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in headers.items():
        # A name with an underscore could be taken for another header, such as X_Forwarded_Proto.
        if "_" not in name:
            environ["HTTP_" + name.upper().replace("-", "_")] = value
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if (sent := environ.pop("HTTP_" + name, None)) is not None:
            environ[name] = sent
    return environ


def _call(
    application: WsgiApp,
    environ: dict[str, Any],
    loop: asyncio.AbstractEventLoop,
    respond: Callable[[_Response], None],
) -> None:
    """Call the application, and then ``respond`` on the event loop with its whole response."""
    started: list[Any] = []
    written: list[bytes] = []

    def start_response(*begin: Any) -> Callable[[bytes], None]:
        started[:] = begin
        return written.append

    try:
        parts = application(environ, start_response)
        try:
            body = b"".join([*written, *parts])
        finally:
            if hasattr(parts, "close"):
                parts.close()
        code, _, reason = started[0].partition(" ")
        response = _Response(int(code), reason, started[1], body)
    except Exception:
        LOG.exception("%s %s failed", environ["REQUEST_METHOD"], environ["PATH_INFO"])
        response = _Response.of_error(500, faults.INTERNAL)
    loop.call_soon_threadsafe(respond, response)


def _raise_file_limit(max_files: int) -> int:
    """Raise the process's limit of open files as far as it may and needs to, and return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= max_files:
        return max_files
    max_files = max_files if hard == resource.RLIM_INFINITY else min(hard, max_files)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, hard))
    return max_files
