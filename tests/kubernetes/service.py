# SPDX-License-Identifier: Apache-2.0
"""A Service of Kubernetes as kube-proxy makes it: an address whose connections go to any process that is up."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Self

#: A host and a port.
Address = tuple[str, int]


class Service:
    """Forwards connections to an address to the next of the endpoints that takes them. A context manager."""

    def __init__(self, address: Address, endpoints: Callable[[], Sequence[Address]]) -> None:
        """``endpoints`` returns the addresses of the pods that are ready."""
        self._turns = itertools.count()
        self._address, self._endpoints = address, endpoints
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._listening = socket.create_server(self._address)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for one in (self._listening, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the service ends
            while True:
                client, _ = self._listening.accept()
                self._sockets.append(client)
                if (server := self._connect()) is None:
                    client.close()
                    continue
                self._sockets.append(server)
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=_forward, args=(source, sink), daemon=True).start()

    def _connect(self) -> socket.socket | None:
        """Return a connection to the next pod that is up, None if none is."""
        endpoints = self._endpoints()
        for _ in endpoints:
            with contextlib.suppress(OSError):
                return socket.create_connection(endpoints[next(self._turns) % len(endpoints)])
        return None


def _forward(source: socket.socket, sink: socket.socket) -> None:
    """Forward bytes until one side ends, which also ends the other one."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
