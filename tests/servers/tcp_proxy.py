# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that can stop to forward bytes, as a network does that drops all packets."""

import contextlib
import socket
import threading
from typing import Self

import sqlalchemy as sa


class TcpProxy:
    """Forwards connections to the Unix socket of a server. A context manager.

    It listens on ``listen``, an address and a port, by default any port of 127.0.0.1.
    Between :meth:`drop_packets` and :meth:`forward_packets` it takes connections and bytes, and passes nothing on.
    """

    def __init__(self, target: str, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._target, self._listen = target, listen
        self._forwards = threading.Event()
        self._forwards.set()
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._listening = socket.create_server(self._listen)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._forwards.set()
        for one in (self._listening, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def drop_packets(self) -> None:
        """Pass nothing on from now on."""
        self._forwards.clear()

    def forward_packets(self) -> None:
        """Pass on everything again, also the data that has been held back."""
        self._forwards.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the proxy ends
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._sockets += client, server
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._forwards.wait()
                sink.sendall(data)
            self._forwards.wait()
            sink.shutdown(socket.SHUT_WR)


def target(url: sa.URL) -> str:
    """Return the Unix socket that a URL of PostgreSQL or MariaDB names."""
    if url.get_backend_name() == "postgresql":
        return f"{url.query['host']}/.s.PGSQL.5432"
    return str(url.query["unix_socket"])


def url_through(proxy: TcpProxy, url: sa.URL) -> sa.URL:
    """Return the URL of the same database through a proxy."""
    return url.difference_update_query(["host", "unix_socket"]).set(host="127.0.0.1", port=proxy.port)
