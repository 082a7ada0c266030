# SPDX-License-Identifier: Apache-2.0
"""Authentication for ``auth_strategy = http_basic``: name and password, from a file in the format of Apache."""

import webob.exc
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_middleware import basic_auth, exceptions

from tonnage.api.auth import request_context
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors

_CHALLENGE = 'Basic realm="tonnage", charset="UTF-8"'


class HttpBasic:
    """Authenticates administrators by name and password. The file is read for each request."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable file."""
        self._file = conf.http_basic_auth_user_file
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

        Raises :class:`~tonnage.api.auth.request_context.Unauthenticated` if the file has no such user and password.
        """
        try:
            name, password = basic_auth.parse_token(basic_auth.parse_header(req.env))
            # A name with "#" would match a line that is commented out.
            valid = not name.startswith("#") and basic_auth.authenticate(self._file, name, password)
        except (webob.exc.HTTPException, ValueError):
            # bcrypt raises ValueError for a password that is longer than it compares.
            valid = False
        if not valid:
            raise request_context.Unauthenticated(request_context.REQUIRED, _CHALLENGE)
        return request_context.administrator(req, user_id=name, project_id=project_id or req.get_header("X-Project-Id"))
