# SPDX-License-Identifier: Apache-2.0
"""The built-in HTTP server: one process with an event loop and many threads."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import threading
from dataclasses import dataclass

from oslo_config import cfg

from tonnage.api.http import middleware
from tonnage.api.http.http_request import WsgiApp
from tonnage.api.http.wsgi_server import ServerLimits, TlsContexts, WsgiServer
from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

#: Connections that the system accepts before the server does.
_BACKLOG = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """The name of a server for the log, its address, and the names of the options that set host and port."""

    name: str
    host: str
    port: int
    options: tuple[str, str]


class Server:
    """Serves an application on a listener. ``tls`` returns the TLS context of a new connection; None: without TLS."""

    def __init__(
        self, listener: Listener, application: WsgiApp, limits: ServerLimits, tls: TlsContexts | None = None
    ) -> None:
        self._listener, self._application = listener, application
        self._limits, self._tls = limits, tls
        self._socket: socket.socket | None = None
        #: The URL of the server, once it listens.
        self.url = ""
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stopped: asyncio.Event

    def listen(self) -> None:
        """Bind the address. Clients that connect wait until the server has started.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if the address is not available.
        """
        self._bound()

    def start(self) -> None:
        """Serve on separate threads; call :meth:`listen` first unless that was done. Raises as :meth:`listen`."""
        listening = self._bound()
        server = WsgiServer(self._application, self._limits, self._tls, listening.getsockname()[:2])
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(server, listening)), name=self._listener.name
        )
        self._thread.start()
        self._started.wait()
        LOG.info("The %s listens on %s", self._listener.name, self.url)

    def stop(self) -> None:
        """Stop accepting requests, and wait at most ``stop_timeout`` seconds for the accepted ones."""
        if self._thread is not None:
            with contextlib.suppress(RuntimeError):  # it was stopped before
                self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()
        if self._socket is not None:
            self._socket.close()

    async def _serve(self, server: WsgiServer, listening: socket.socket) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server.add_socket(listening)
        self._started.set()
        await self._stopped.wait()
        await server.drain()

    def _bound(self) -> socket.socket:
        """Return the listening socket; bind it unless that was done. Raises as :meth:`listen`."""
        if self._socket is not None:
            return self._socket
        listener = self._listener
        try:
            self._socket = _bind(listener.host, listener.port)
        except OSError as error:
            raise errors.ConfigurationError(
                f"cannot listen on {listener.options[0]} = {listener.host}, {listener.options[1]} = {listener.port}: "
                f"{_reason(error)}; {_REMEDIES.get(error.errno or 0, 'choose an address that this machine has')}"
            ) from None
        host, port = self._socket.getsockname()[:2]
        scheme = "http" if self._tls is None else "https"
        self.url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        return self._socket


def _bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; for ``::`` it accepts IPv4 as well. Raises ``OSError``."""
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    dual_stack = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=dual_stack)
    listening.setblocking(False)
    return listening


def _reason(error: OSError) -> str | None:
    return error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)


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
            max_body_size=middleware.body_limit(conf).size,
        )
        super().__init__(listener, application, limits)


_REMEDIES = {
    errno.EADDRINUSE: "end the program that listens there, or choose another port",
    errno.EACCES: "choose another port",
}
