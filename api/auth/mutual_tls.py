# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS: connections only for clients with a certificate of one authority.

cheroot performs handshakes on the thread that accepts connections, where one silent client would block all others.
Here the worker threads perform them.
"""

import logging
import socket
import ssl
from typing import Any

from cheroot.ssl import builtin

from tonnage.api.http import connections

LOG = logging.getLogger(__name__)

#: Most seconds of a handshake.
_HANDSHAKE_TIMEOUT = 2.0


class Adapter(builtin.BuiltinSSLAdapter):
    """Requires a client certificate signed by ``authority``. All three parameters are names of PEM files."""

    def __init__(self, cert: str, key: str, authority: str) -> None:
        super().__init__(cert, key, authority)
        self.context.verify_mode = ssl.CERT_REQUIRED

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, Any]]:
        """Return the TLS socket before its handshake, and the WSGI environment of its requests."""
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


class Connection(connections.Connection):
    """A connection that begins with a handshake."""

    def is_admitted(self) -> bool:
        """Return whether the client has an accepted certificate. Performs the handshake at the first call."""
        if self.socket.version() is not None:
            return True
        usual = self.socket.gettimeout()
        self.socket.settimeout(_HANDSHAKE_TIMEOUT)
        try:
            self.socket.do_handshake()
        except OSError as error:
            LOG.info("%s is not let in: %s", self.remote_addr, error)
            return False
        self.socket.settimeout(usual)
        return True
