# SPDX-License-Identifier: Apache-2.0
"""Authentication for ``auth_strategy = http_basic``: name and password, from a file in the format of Apache."""

import hmac
import os
import secrets
import threading

import bcrypt
import falcon
import webob.exc
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_middleware import basic_auth, exceptions

from tonnage.api.http import request_context
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors

_CHALLENGE = 'Basic realm="tonnage", charset="UTF-8"'


#: Number of passwords that are checked at a time: a check costs much processor time on purpose.
_CHECKS = 2

#: The largest share of the request threads that wait for a check or make one, and their largest number.
_WAITING_SHARE, _WAITING = 0.25, 8

#: Number of remembered users. A user is forgotten when the file changes.
_REMEMBERED = 1000


class HttpBasic:
    """Authenticates administrators by name and password.

    The check of a password is slow on purpose. So users whose password was right are remembered, by a digest with a key
    of this process. Few requests wait for a check, and others are rejected, so wrong passwords leave request threads
    for the users that are remembered. An unknown user takes as long as a known one, so that the time does
    not reveal the names.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable file."""
        self._file = conf.http_basic_auth_user_file
        self._key = secrets.token_bytes(32)
        self._checks = threading.BoundedSemaphore(_CHECKS)
        self._waiting = threading.BoundedSemaphore(
            max(_CHECKS, min(_WAITING, int(conf.osapi_volume_threads * _WAITING_SHARE)))
        )
        # The digests of remembered users, with the state of the file at the time of the check.
        self._remembered: dict[bytes, tuple[int, int]] = {}
        try:
            basic_auth.validate_auth_file(self._file)
        except exceptions.ConfigInvalid:
            problem = "cannot be read"
        except (webob.exc.HTTPException, ValueError) as error:
            problem = f"is no such file: {getattr(error, 'detail', None) or error}"
        else:
            return
        raise errors.ConfigurationError(
            f"auth_strategy = http_basic looks for users in http_basic_auth_user_file = {self._file}, which {problem}; "
            f"htpasswd -B makes such files"
        )

    def __call__(self, req: Request, project_id: str | None) -> RequestContext:
        """Return the context of the authenticated user.

        Raises :class:`~tonnage.api.http.request_context.Unauthenticated` if the file has no such user and password, and
        falcon's error if too many others wait for a check.
        """
        try:
            name, password = basic_auth.parse_token(basic_auth.parse_header(req.env))
            valid = self._is_valid(name, password)
        except (webob.exc.HTTPException, ValueError, OSError):
            # bcrypt raises ValueError for a password that is longer than it compares.
            valid = False
        if not valid:
            raise request_context.Unauthenticated(request_context.REQUIRED, _CHALLENGE)
        return request_context.administrator(req, user_id=name, project_id=project_id or req.get_header("X-Project-Id"))

    def _is_valid(self, name: str, password: bytes) -> bool:
        """Return whether the file has the name with this password."""
        digest = hmac.digest(self._key, name.encode() + b":" + password, "sha256")
        status = os.stat(self._file)
        state = status.st_mtime_ns, status.st_size
        if self._remembered.get(digest) == state:
            return True
        if not self._waiting.acquire(blocking=False):
            raise falcon.HTTPServiceUnavailable(description="Too many passwords are being checked.", retry_after=1)
        try:
            with self._checks:
                entry, is_known = self._entry(name)
                valid = bcrypt.checkpw(password, basic_auth.parse_entry(entry)[1]) and is_known
        finally:
            self._waiting.release()
        if valid:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[digest] = state
        return valid

    def _entry(self, name: str) -> tuple[str, bool]:
        """Return the entry of a user and True or, for an unknown name, the entry of another user and False."""
        with open(self._file, encoding="utf-8") as file:
            # A name with "#" would match a line that is commented out.
            entries = [line.strip() for line in file if ":" in line and not line.lstrip().startswith("#")]
        user_entry = next((entry for entry in entries if entry.startswith(f"{name}:")), None)
        if user_entry is None and not entries:
            raise ValueError("the file has no users")
        return (entries[0], False) if user_entry is None else (user_entry, True)
