# SPDX-License-Identifier: Apache-2.0
"""A program that serves a WSGI application on a port of 127.0.0.1, one request after the other.

Usage: ``python serve_wsgi.py PORT MODULE:NAME``, with the Python of that environment.
"""

import importlib
import sys
from wsgiref import simple_server


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def address_string(self) -> str:
        """Return the address, without a name lookup."""
        return str(self.client_address[0])


def main(port: str, application: str) -> None:
    """Serve until killed."""
    del sys.argv[1:]  # Keystone reads its options there.
    module, _, name = application.partition(":")
    found = getattr(importlib.import_module(module), name)
    simple_server.make_server("127.0.0.1", int(port), found, handler_class=_Quiet).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
