# SPDX-License-Identifier: Apache-2.0
"""Authentication for ``auth_strategy = keystone``: Keystone validates the token of a request.

This module takes half a second to import, so it is imported only for this strategy.
"""

import importlib.util
import itertools
import os
from collections.abc import Iterable
from typing import Any

from keystoneauth1 import exceptions, loading
from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_context.context import RequestContext

from tonnage.api.http import request_context
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors

GROUP = "keystone_authtoken"

#: Types of accounts whose options are in the sample configuration.
_COMMON_ACCOUNT_TYPES = ("password", "v3applicationcredential")

#: The required options of an account with a password; each tuple has alternatives.
_PASSWORD_OPTIONS = (("username", "user_id"), ("password",), ("project_name", "project_id", "system_scope"))

#: Options with names of files that the middleware reads at its first call to Keystone.
_FILE_OPTIONS = ("cafile", "certfile", "keyfile")


#: Errors that the middleware raises for unusable options.
_OPTION_ERRORS = (auth_token.ConfigurationError, exceptions.ClientException, ImportError, OSError, ValueError)


class Keystone:
    """Validates tokens with keystonemiddleware. Safe to use from many threads.

    The middleware does not wrap the application; it gets single requests. So version discovery and the health check
    work without Keystone, and its rejections become error responses like all others.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable section."""
        try:
            # With a delayed decision nothing would reject an invalid token.
            settings = {"oslo_config_config": conf, "delay_auth_decision": False}
            self._middleware = auth_token.AuthProtocol(_accept, settings)
        except (*_OPTION_ERRORS, cfg.Error) as error:
            raise errors.ConfigurationError(f"section [{GROUP}]: {error}") from None
        _check(conf)

    def __call__(self, req: Request, project_id: str | None) -> RequestContext:
        """Return the context of the token's user and project.

        Raises :class:`~tonnage.api.http.request_context.Unauthenticated` without a valid token,
        :class:`~tonnage.capacity.errors.InvalidInput` if the project in the URL is not the token's, and
        :class:`~tonnage.capacity.errors.Unavailable` while Keystone does not answer.
        """
        answer = _MiddlewareResponse()
        try:
            self._middleware(req.env, answer.start)
        except exceptions.ClientException as error:
            raise errors.Unavailable(f"Keystone cannot validate a token: {error}") from None
        if answer.status == 401:
            raise request_context.Unauthenticated(request_context.REQUIRED, answer.challenge)
        if answer.status != _ACCEPTED:
            raise errors.Unavailable(f"Keystone cannot validate a token ({answer.status})")
        # The tokens are not needed any more. The context drops them, so that they cannot leak.
        identity = RequestContext.from_environ(
            req.env, request_id=request_context.request_id(req), auth_token=None, service_token=None
        )
        if project_id is not None and project_id != identity.project_id:
            raise errors.InvalidInput("Malformed request url: its project is not the one that the token is for")
        return identity


def list_library_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options of keystonemiddleware and of the common types of accounts."""
    options_by_name: dict[str, cfg.Opt] = {}
    listed = (options for group, options in auth_token.list_opts() if group == GROUP)
    plugins = (loading.get_auth_plugin_conf_options(account_type) for account_type in _COMMON_ACCOUNT_TYPES)
    for option in itertools.chain(*listed, *plugins):
        options_by_name.setdefault(option.dest, option)
    return [(GROUP, list(options_by_name.values()))]


_ACCEPTED = 204


def _accept(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Accept a request with a valid token. The middleware calls this function as its application."""
    start_response(f"{_ACCEPTED} No Content", [])
    return ()


class _MiddlewareResponse:
    """The response of the middleware."""

    status = 0
    challenge = ""

    def start(self, status: str, headers: list[tuple[str, str]], error: Any = None) -> None:
        """Store the status and the challenge. The client gets the body of the application."""
        self.status = int(status.partition(" ")[0])
        self.challenge = dict(headers).get("WWW-Authenticate", "")


def _check(conf: cfg.ConfigOpts) -> None:
    """Raise ConfigurationError for options that would fail at the first call to Keystone."""
    section = conf[GROUP].auth_section or GROUP
    account = conf[section]
    if not account.auth_type:
        raise errors.ConfigurationError(
            f"[{section}] auth_type is not set: Tonnage needs an account to ask Keystone as, auth_type = password with "
            "auth_url, username, password, project_name, user_domain_name and project_domain_name"
        )
    if account.auth_type in ("password", "v3password"):
        for names in _PASSWORD_OPTIONS:
            if not any(account.get(name) for name in names):
                raise errors.ConfigurationError(
                    f"[{section}] {' or '.join(names)} is not set, which auth_type = password needs"
                )
    for name in _FILE_OPTIONS:
        path = conf[GROUP][name]
        if path and not os.access(path, os.R_OK):
            raise errors.ConfigurationError(f"[{GROUP}] {name} is {path}, which cannot be read")
    _check_cache(conf[GROUP])


def _check_cache(section: Any) -> None:
    binary = section.memcache_sasl_enabled or section.memcache_tls_enabled
    module, package = ("bmemcached", "python-binary-memcached") if binary else ("memcache", "python-memcached")
    if section.memcached_servers and importlib.util.find_spec(module) is None:
        raise errors.ConfigurationError(f"[{GROUP}] memcached_servers is set: install {package}, which asks them")
