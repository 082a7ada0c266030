# SPDX-License-Identifier: Apache-2.0
"""The file ``web_config_file``: certificate and users, in the format of Prometheus's exporter-toolkit.

Supported are ``tls_server_config`` with ``cert_file``, ``key_file``, ``client_auth_type``, ``client_ca_file`` and
``min_version``, and ``basic_auth_users``, a mapping from names to bcrypt hashes. Anything else is an error.
"""

import base64
import binascii
import hmac
import logging
import os
import pathlib
import secrets
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import bcrypt
import msgspec
import yaml

from tonnage.capacity import errors, type_conversion

LOG = logging.getLogger(__name__)

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
}


class _Tls(msgspec.Struct, forbid_unknown_fields=True):
    cert_file: str
    key_file: str
    client_auth_type: str = "NoClientCert"
    client_ca_file: str = ""
    min_version: str = "TLS12"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tls_server_config: _Tls | None = None
    basic_auth_users: dict[str, str] = {}


_Stamp: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _State:
    """The content of the file, and the modification times and sizes of it and of its certificates at that moment."""

    content: _File
    stamp: _Stamp


class WebConfig:
    """The settings in a file. It is read again when it has changed; an unusable new one leaves the old in force."""

    def __init__(self, path: str) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable file."""
        self._path = pathlib.Path(path)
        self._state = self._read()
        self._lock = threading.Lock()
        # Passwords that were right, as digests with a key of this process: a check takes long on purpose.
        self._key = secrets.token_bytes(32)
        self._verified: set[tuple[_Stamp, bytes]] = set()
        self._context: ssl.SSLContext | None = None
        # The password of an unknown user is compared with this hash, so that it takes as long as that of a known user.
        self._nobody = bcrypt.hashpw(secrets.token_bytes(16), bcrypt.gensalt())
        # The last problem of a changed file, which is logged once.
        self._problem = ""

    def tls(self) -> Callable[[], ssl.SSLContext] | None:
        """Return a function that returns the TLS context of a connection that begins, None without a certificate.

        The context is another one after each change of the files, so that no earlier session is resumed. Raises
        :class:`~tonnage.capacity.errors.ConfigurationError` for files that cannot be used.
        """
        tls = self._state.content.tls_server_config
        if tls is None:
            return None
        context = self._context = self._build(tls)

        def newest() -> ssl.SSLContext:
            # A handshake, too, notices a new certificate: its client may reject the old one.
            self._refresh()
            return self._context or context

        return newest

    def _build(self, tls: _Tls) -> ssl.SSLContext:
        """Return a new context. Raises :class:`~tonnage.capacity.errors.ConfigurationError` as :meth:`tls`."""
        for name, choices in (("client_auth_type", _CLIENT_AUTH), ("min_version", _VERSIONS)):
            if getattr(tls, name) not in choices:
                raise self._error(f"{name}: {getattr(tls, name)!r} is none of {', '.join(choices)}")
        if tls.client_auth_type != "NoClientCert" and not tls.client_ca_file:
            raise self._error(f"client_auth_type: {tls.client_auth_type} needs client_ca_file")
        try:
            context = ssl.create_default_context(
                ssl.Purpose.CLIENT_AUTH, cafile=self._file(tls.client_ca_file) if tls.client_ca_file else None
            )
            context.load_cert_chain(self._file(tls.cert_file), self._file(tls.key_file))
        except (OSError, ssl.SSLError) as error:
            raise self._error(f"tls_server_config: {error}") from None
        context.minimum_version = _VERSIONS[tls.min_version]
        context.verify_mode = _CLIENT_AUTH[tls.client_auth_type]
        return context

    def admits(self, authorization: str | None) -> bool:
        """Return whether a header ``Authorization`` names a user of the file; True if the file has no users."""
        self._refresh()
        users, stamp = self._state.content.basic_auth_users, self._state.stamp
        if not users:
            return True
        name, _, password = _credentials(authorization).partition(b":")
        credentials = stamp, hmac.digest(self._key, name + b":" + password, "sha256")
        if credentials in self._verified:
            return True
        # One check at a time, so that wrong passwords take little processor time from the decisions.
        with self._lock:
            hashed = users.get(name.decode(errors="replace"))
            try:
                valid = (
                    bcrypt.checkpw(password, self._nobody if hashed is None else hashed.encode()) and hashed is not None
                )
            except ValueError:  # a password that is longer than bcrypt compares
                return False
            if valid:
                self._verified = {entry for entry in self._verified if entry[0] == stamp} | {credentials}
            return valid

    def _refresh(self) -> None:
        """Read the file and the certificate again if one of them has changed; new connections get the new one."""
        try:
            if self._stamp(self._state.content) == self._state.stamp:
                return
            state = self._read()
            tls = state.content.tls_server_config
            if self._context is not None and tls is not None:
                self._context = self._build(tls)
        except (OSError, errors.ConfigurationError) as error:
            if str(error) != self._problem:
                LOG.error("The earlier settings stay in force: %s", error)
            self._problem = str(error)
        else:
            LOG.info("The changed web_config_file %s is in force", self._path)
            self._state, self._problem = state, ""

    def _read(self) -> _State:
        try:
            content = yaml.safe_load(self._path.read_text(encoding="utf-8"))
            parsed = type_conversion.convert(content or {}, _File)
            stamp = self._stamp(parsed)
        except (OSError, UnicodeDecodeError) as error:
            raise self._error(str(error)) from None
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            raise self._error(" ".join(str(error).split())) from None
        for name, hashed in parsed.basic_auth_users.items():
            try:
                bcrypt.checkpw(b"", hashed.encode())
            except ValueError:
                raise self._error(f"basic_auth_users: the hash of {name} is not one of bcrypt (htpasswd -B)") from None
        return _State(parsed, stamp)

    def _stamp(self, content: _File) -> _Stamp:
        tls = content.tls_server_config
        files = [str(self._path)]
        if tls is not None:
            files += map(self._file, filter(None, (tls.cert_file, tls.key_file, tls.client_ca_file)))
        return tuple((status.st_mtime_ns, status.st_size) for status in map(os.stat, files))

    def _file(self, name: str) -> str:
        """Return the path of a file; relative names start at the folder of this one, as in the exporter-toolkit."""
        return str(self._path.parent / name)

    def _error(self, problem: str) -> errors.ConfigurationError:
        return errors.ConfigurationError(f"option [metrics] web_config_file = {self._path}: {problem}")


def _credentials(authorization: str | None) -> bytes:
    """Return name and password, joined by a colon, of a header of basic authentication; empty for any other."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(encoded.strip(), validate=True)
    except binascii.Error:
        return b""
