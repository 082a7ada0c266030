# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS with files that are read again when they have changed, as cert-manager renews them."""

import logging
import os
import ssl
import threading
from collections.abc import Mapping

from tonnage.capacity import errors

LOG = logging.getLogger(__name__)


class MutualTls:
    """TLS that accepts client certificates of one authority only.

    ``files`` maps the names of the options to the PEM files of the certificate, its key, and the authority, in this
    order. A connection that begins has the newest certificate and authority; those that exist keep theirs. Changed
    files that cannot be used leave the earlier ones in force, with a line in the log.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for files that cannot be used."""
        self._files = dict(files)
        self._lock = threading.Lock()
        #: The reason for which the changed files cannot be used, which is logged once.
        self._problem = ""
        for name, path in self._files.items():
            if not os.access(path, os.R_OK):
                raise errors.ConfigurationError(f"option [kubernetes] {name} = {path}: this file cannot be read")
        self._stamp = self._present_stamp()
        self._context = self._build()

    def context(self) -> ssl.SSLContext:
        """Return the context of a connection that begins: another one after each change of the files.

        So no session of the earlier files is resumed. A client may have no certificate; the server refuses those that
        need one.
        """
        self._refresh()
        return self._context

    def _refresh(self) -> None:
        with self._lock:
            try:
                stamp = self._present_stamp()
                if stamp == self._stamp:
                    return
                self._context, self._stamp = self._build(), stamp
            except (OSError, errors.ConfigurationError) as error:
                if str(error) != self._problem:
                    LOG.error("The earlier certificates of the extender stay in force: %s", error)
                self._problem = str(error)
            else:
                self._problem = ""
                LOG.info("The changed certificates of the extender are in force")

    def _build(self) -> ssl.SSLContext:
        certificate, key, authority = self._files.values()
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise errors.ConfigurationError(
                f"options [kubernetes] {', '.join(self._files)} cannot be used: {error}"
            ) from error
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _present_stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return the files as they are now. A volume of Kubernetes replaces the target of their links."""
        return tuple(
            (status.st_mtime_ns, status.st_size, status.st_ino) for status in map(os.stat, self._files.values())
        )
