# SPDX-License-Identifier: Apache-2.0
"""The built-in HTTP server: one process with many threads."""

import errno
import logging
import os
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from cheroot import wsgi
from oslo_config import cfg

from tonnage.api.auth import mutual_tls
from tonnage.api.http import connections, middleware
from tonnage.api.http.http_request import WsgiApp
from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

_BACKLOG = 128
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^)]+)")
#: Most bytes of the headers of a request. Longer ones are answered 413 before the application is called.
_MAX_HEADERS = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """The name of a server for the log, its address, and the names of the options that set host and port."""

    name: str
    host: str
    port: int
    options: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server.

    A server handles at most ``threads`` requests at a time. It keeps an idle connection for ``client_timeout`` seconds,
    unless as many others are idle as it has threads. It lets accepted requests run for ``stop_timeout`` seconds when it
    stops. It reads at most ``max_read_size`` bytes of a body at once.
    """

    threads: int
    client_timeout: int
    stop_timeout: int
    max_read_size: int = sys.maxsize


class _Server(wsgi.Server):
    """cheroot's server with the log of Tonnage, and with a socket that is closed if it cannot be bound."""

    ConnectionClass = connections.Connection
    _connections: Any
    max_read_size = sys.maxsize

    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: Any) -> socket.socket:
        """Bind the socket; close it if that fails."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_

    def process_conn(self, conn: connections.Connection) -> None:
        """Assign a thread to a connection that has input. A silent connection uses no thread."""
        if conn.last_used is not None or conn.has_input():
            super().process_conn(conn)
            return
        self.put_conn(conn)
        if self.ready:
            # A client that has not sent a request yet gets less time, so that many of them do not fill the server.
            conn.last_used = time.time() - max(0.0, self.timeout - connections.CLIENT_TIMEOUT)

    def put_conn(self, conn: connections.Connection) -> None:
        """Wait for input on a connection. Close it if the server stops, as no thread may be left to answer."""
        if self.ready:
            self._connections.put(conn)
        else:
            conn.close_now()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Write an entry to the log."""
        LOG.log(level, "%s", msg, exc_info=traceback)


class Server:
    """Serves an application on a listener, with mutual TLS if there is an adapter for it.

    ``wsgi_server`` is the server of Cheroot that does so.
    """

    def __init__(
        self, listener: Listener, application: WsgiApp, limits: ServerLimits, tls: mutual_tls.Adapter | None = None
    ) -> None:
        self._listener = listener
        self.wsgi_server = _Server(
            (listener.host, listener.port),
            application,
            numthreads=limits.threads,
            server_name="tonnage",
            request_queue_size=_BACKLOG,
            timeout=limits.client_timeout,
            shutdown_timeout=limits.stop_timeout,
        )
        self.wsgi_server.keep_alive_conn_limit = limits.threads
        self.wsgi_server.max_read_size = limits.max_read_size
        self.wsgi_server.ssl_adapter = tls
        if tls is not None:
            self.wsgi_server.ConnectionClass = mutual_tls.Connection
        self.wsgi_server.max_request_header_size = _MAX_HEADERS
        self._thread = threading.Thread(target=self._serve, name=listener.name)

    @property
    def url(self) -> str:
        """The URL of the server, once it listens."""
        host, port = self.wsgi_server.bind_addr[:2]
        scheme = "http" if self.wsgi_server.ssl_adapter is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def listen(self) -> None:
        """Bind the address. Clients that connect wait until the server has started.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if the address is not available.
        """
        try:
            self.wsgi_server.prepare()
        except OSError as error:
            listener = self._listener
            raise errors.ConfigurationError(
                f"cannot listen on {listener.options[0]} = {listener.host}, {listener.options[1]} = {listener.port}: "
                f"{_reason(error)}; {_remedy(error)}"
            ) from None

    def start(self) -> None:
        """Serve on separate threads; call :meth:`listen` first unless that was done. Raises as :meth:`listen`."""
        if not self.wsgi_server.ready:
            self.listen()
        self._thread.start()
        LOG.info("The %s listens on %s", self._listener.name, self.url)

    def stop(self) -> None:
        """Stop accepting requests, and wait at most ``stop_timeout`` seconds for the accepted ones."""
        self.wsgi_server.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _serve(self) -> None:
        self.wsgi_server.serve()


class ApiServer(Server):
    """The server of the REST API, on ``osapi_volume_listen`` and ``osapi_volume_listen_port``."""

    def __init__(self, conf: cfg.ConfigOpts, application: WsgiApp) -> None:
        listener = Listener(
            name="REST API",
            host=conf.osapi_volume_listen,
            port=conf.osapi_volume_listen_port,
            options=("osapi_volume_listen", "osapi_volume_listen_port"),
        )
        limits = ServerLimits(
            threads=conf.osapi_volume_threads,
            client_timeout=conf.client_socket_timeout,
            stop_timeout=conf.osapi_volume_stop_timeout,
            max_read_size=middleware.body_limit(conf).max_read_size,
        )
        super().__init__(listener, application, limits)


def _remedy(error: OSError) -> str:
    text = str(error)
    if os.strerror(errno.EADDRINUSE) in text:
        return "end what listens there or choose another port"
    return "choose another port" if os.strerror(errno.EACCES) in text else "choose an address that this machine has"


def _reason(error: OSError) -> str:
    """Return the system's error message, which cheroot embeds in the text of its own error."""
    found = _ERRNO.search(str(error))
    return str(error) if found is None else found[1]
