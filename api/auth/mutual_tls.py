# SPDX-License-Identifier: Apache-2.0
"""TLS for servers that talk to nobody without a certificate of one authority.

cheroot makes handshakes on the thread that accepts connections, where a client that says nothing would keep all others
out. Here they are made on the threads that answer.
"""

import logging
import socket
import ssl
from typing import Any

from cheroot.ssl import builtin

from tonnage.api.http import connections

LOG = logging.getLogger(__name__)

#: Seconds that a client gets for its handshake.
_PATIENCE = 2.0


class Adapter(builtin.BuiltinSSLAdapter):
    """Asks clients for a certificate that ``authority`` has signed. All three are files, PEM."""

    def __init__(self, cert: str, key: str, authority: str) -> None:
        super().__init__(cert, key, authority)
        self.context.verify_mode = ssl.CERT_REQUIRED

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, Any]]:
        """Return the socket, on which nothing has been said yet, and what requests on it have in their environment."""
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


class Connection(connections.Connection):
    """A connection that begins with a handshake."""

    def is_let_in(self) -> bool:
        """Tell whether the client has shown a certificate that is accepted."""
        if self.socket.version() is not None:
            return True
        usual = self.socket.gettimeout()
        self.socket.settimeout(_PATIENCE)
        try:
            self.socket.do_handshake()
        except OSError as error:
            LOG.info("%s is not let in: %s", self.remote_addr, error)
            return False
        self.socket.settimeout(usual)
        return True
