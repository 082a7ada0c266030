# SPDX-License-Identifier: Apache-2.0
"""``auth_strategy = keystone``: whoever asks brings a token, and Keystone says whose it is.

This module takes half a second to import, for which only those wait who have a Keystone.
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

from tonnage.api.auth import request_context
from tonnage.api.http.request import Request
from tonnage.capacity import errors

GROUP = "keystone_authtoken"

#: Kinds of accounts whose options are in the sample configuration.
_USUAL = ("password", "v3applicationcredential")

#: What an account with a password cannot do without, whatever it may be called.
_ACCOUNT = (("username", "user_id"), ("password",), ("project_name", "project_id", "system_scope"))

#: Options that name files which are read when Keystone is first asked.
_FILES = ("cafile", "certfile", "keyfile")


#: What the middleware raises for options that it cannot use.
_UNUSABLE = (auth_token.ConfigurationError, exceptions.ClientException, ImportError, OSError, ValueError)


class Keystone:
    """Asks Keystone whose a token is, with keystonemiddleware. Safe to use from many threads.

    The middleware gets one request after the other rather than the application: so versions and health need no
    Keystone, and what it refuses is answered as everything else is.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for a section that cannot be used."""
        try:
            # Nothing here would decide what that option defers.
            settings = {"oslo_config_config": conf, "delay_auth_decision": False}
            self._middleware = auth_token.AuthProtocol(_admit, settings)
        except (*_UNUSABLE, cfg.Error) as error:
            raise errors.ConfigurationError(f"section [{GROUP}]: {error}") from None
        _check(conf)

    def __call__(self, req: Request, project_id: str | None) -> RequestContext:
        """Return who asks, and for which project.

        Raises :class:`~tonnage.api.auth.request_context.Unauthenticated` without a valid token,
        :class:`~tonnage.capacity.errors.InvalidInput` for the address of another project than the token's, and
        :class:`~tonnage.capacity.errors.Unavailable` while Keystone does not answer.
        """
        answer = _Answer()
        try:
            self._middleware(req.env, answer.start)
        except exceptions.ClientException as error:
            raise errors.Unavailable(f"Keystone cannot be asked whose a token is: {error}") from None
        if answer.status == 401:
            raise request_context.Unauthenticated(request_context.REQUIRED, answer.challenge)
        if answer.status != _ADMITTED:
            raise errors.Unavailable(f"Keystone cannot be asked whose a token is ({answer.status})")
        # The tokens have done their work; what is not kept cannot be told.
        identity = RequestContext.from_environ(
            req.env, request_id=request_context.request_id(req), auth_token=None, service_token=None
        )
        if project_id is not None and project_id != identity.project_id:
            raise errors.InvalidInput("Malformed request url: its project is not the one that the token is for")
        return identity


def list_library_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options, all of keystonemiddleware, with those of the usual kinds of accounts."""
    found: dict[str, cfg.Opt] = {}
    listed = (options for group, options in auth_token.list_opts() if group == GROUP)
    plugins = (loading.get_auth_plugin_conf_options(kind) for kind in _USUAL)
    for option in itertools.chain(*listed, *plugins):
        found.setdefault(option.dest, option)
    return [(GROUP, list(found.values()))]


_ADMITTED = 204


def _admit(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Stand where the middleware expects the application: a request that comes this far has a valid token."""
    start_response(f"{_ADMITTED} No Content", [])
    return ()


class _Answer:
    """What the middleware answers."""

    status = 0
    challenge = ""

    def start(self, status: str, headers: list[tuple[str, str]], error: Any = None) -> None:
        """Take status and headers; whoever asks gets a body of ours."""
        self.status = int(status.partition(" ")[0])
        self.challenge = dict(headers).get("WWW-Authenticate", "")


def _check(conf: cfg.ConfigOpts) -> None:
    """Refuse what the middleware would find out only when it asks."""
    section = conf[GROUP].auth_section or GROUP
    account = conf[section]
    if not account.auth_type:
        raise errors.ConfigurationError(
            f"[{section}] auth_type is not set: Tonnage needs an account to ask Keystone as, auth_type = password with "
            "auth_url, username, password, project_name, user_domain_name and project_domain_name"
        )
    if account.auth_type in ("password", "v3password"):
        for names in _ACCOUNT:
            if not any(account.get(name) for name in names):
                raise errors.ConfigurationError(
                    f"[{section}] {' or '.join(names)} is not set, which auth_type = password needs"
                )
    for name in _FILES:
        path = conf[GROUP][name]
        if path and not os.access(path, os.R_OK):
            raise errors.ConfigurationError(f"[{GROUP}] {name} is {path}, which cannot be read")
    _check_cache(conf[GROUP])


def _check_cache(section: Any) -> None:
    apart = section.memcache_sasl_enabled or section.memcache_tls_enabled
    module, package = ("bmemcached", "python-binary-memcached") if apart else ("memcache", "python-memcached")
    if section.memcached_servers and importlib.util.find_spec(module) is None:
        raise errors.ConfigurationError(f"[{GROUP}] memcached_servers is set: install {package}, which asks them")
