# SPDX-License-Identifier: Apache-2.0
"""The built-in HTTP server: one process, many threads."""

import errno
import logging
import os
import re
import socket
import sys
import threading
import time
from typing import Any

from cheroot import wsgi
from oslo_config import cfg

from tonnage.api.auth import mutual_tls
from tonnage.api.http import connections, request_limits
from tonnage.api.http.http_request import WsgiApp
from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

_BACKLOG = 128
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^)]+)")
#: Beyond this the server answers 413 before the application sees the request.
_MAX_HEADERS = 65536
#: How many bytes of a body are read at once where nothing else is said: as many as are announced.
_LONGEST_READ = sys.maxsize


class _Server(wsgi.Server):
    """cheroot's server, which would write to standard error and leave a socket open that it cannot bind."""

    ConnectionClass = connections.Connection
    _connections: Any
    longest_read = _LONGEST_READ

    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: Any) -> socket.socket:
        """Bind the socket, or close it and raise."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_

    def process_conn(self, conn: connections.Connection) -> None:
        """Have a thread answer a connection once something has been said on it: those that are silent hold none."""
        if conn.last_used is not None or conn.something_came():
            super().process_conn(conn)
            return
        self.put_conn(conn)
        if self.ready:
            # Whoever has asked nothing yet is waited for less long, lest many of them fill up the server.
            conn.last_used = time.time() - max(0.0, self.timeout - connections.PATIENCE)

    def put_conn(self, conn: connections.Connection) -> None:
        """Wait for what is said on a connection, or end it if the server stops: no thread may be left to answer."""
        if self.ready:
            self._connections.put(conn)
        else:
            conn.end()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Write to the log."""
        LOG.log(level, "%s", msg, exc_info=traceback)


class Server:
    """Serves an application. ``options`` are the names of those that say where, ``name`` is that of what is served.

    It works on as many requests at a time as it has ``threads``. It keeps a connection after an answer, for
    ``client_timeout`` seconds, unless nothing is said on as many others. Of a body at most ``longest_read`` bytes are
    read at once.
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        options: tuple[str, str],
        application: WsgiApp,
        *,
        threads: int,
        client_timeout: int,
        stop_timeout: int,
        tls: mutual_tls.Adapter | None = None,
        longest_read: int = _LONGEST_READ,
    ) -> None:
        self._name, self._address, self._options = name, (host, port), options
        self._server = _Server(
            self._address,
            application,
            numthreads=threads,
            server_name="tonnage",
            request_queue_size=_BACKLOG,
            timeout=client_timeout,
            shutdown_timeout=stop_timeout,
        )
        self._server.keep_alive_conn_limit = threads
        self._server.longest_read = longest_read
        self._server.ssl_adapter = tls
        if tls is not None:
            self._server.ConnectionClass = mutual_tls.Connection
        self._server.max_request_header_size = _MAX_HEADERS
        self._thread = threading.Thread(target=self._serve, name=name)

    @property
    def url(self) -> str:
        """Where the server listens, once it has started."""
        host, port = self._server.bind_addr[:2]
        scheme = "http" if self._server.ssl_adapter is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def listen(self) -> None:
        """Take the address; whoever connects waits until the server has started.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if the address cannot be had.
        """
        try:
            self._server.prepare()
        except OSError as error:
            host, port = self._address
            raise errors.ConfigurationError(
                f"cannot listen on {self._options[0]} = {host}, {self._options[1]} = {port}: "
                f"{_reason(error)}; {_way_out(error)}"
            ) from None

    def start(self) -> None:
        """Serve on threads of its own; raises as :meth:`listen`, which comes first unless it was called before."""
        if not self._server.ready:
            self.listen()
        self._thread.start()
        LOG.info("The %s listens on %s", self._name, self.url)

    def stop(self) -> None:
        """Accept nothing more, finish what was accepted (for ``stop_timeout`` seconds at most), end."""
        self._server.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _serve(self) -> None:
        self._server.serve()


class ApiServer(Server):
    """Serves the REST API on ``osapi_volume_listen`` and ``osapi_volume_listen_port``."""

    def __init__(self, conf: cfg.ConfigOpts, application: WsgiApp) -> None:
        super().__init__(
            "REST API",
            conf.osapi_volume_listen,
            conf.osapi_volume_listen_port,
            ("osapi_volume_listen", "osapi_volume_listen_port"),
            application,
            threads=conf.osapi_volume_threads,
            client_timeout=conf.client_socket_timeout,
            stop_timeout=conf.osapi_volume_stop_timeout,
            longest_read=request_limits.limit(conf).longest_read,
        )


def _way_out(error: OSError) -> str:
    text = str(error)
    if os.strerror(errno.EADDRINUSE) in text:
        return "end what listens there or choose another port"
    return "choose another port" if os.strerror(errno.EACCES) in text else "choose an address that this machine has"


def _reason(error: OSError) -> str:
    """Return the reason in the system's words, which cheroot leaves in the text of an error of its own."""
    found = _ERRNO.search(str(error))
    return str(error) if found is None else found[1]
