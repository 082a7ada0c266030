# SPDX-License-Identifier: Apache-2.0
"""The section ``[placement]`` with the account and the endpoint of OpenStack Placement, as in Nova.

The import of keystoneauth1 takes a quarter of a second. So it happens only in processes that use Placement.
"""

import os

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.placement.client import MICROVERSION, PlacementClient

GROUP = "placement"

#: Default of the option ``timeout`` in seconds.
_TIMEOUT = 5

#: Prefix of environment variables that set options of the section.
_VARIABLES = f"OS_{GROUP.upper()}__"


def from_conf(conf: cfg.ConfigOpts) -> PlacementClient | None:
    """Return a client of Placement, None if the section ``[placement]`` names no account.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable section.
    """
    if GROUP not in conf.list_all_sections() and not any(name.startswith(_VARIABLES) for name in os.environ):
        return None
    from keystoneauth1 import exceptions, loading

    try:
        conf.register_opts([*_adapter_options(), *_session_options()], GROUP)
        loading.register_auth_conf_options(conf, GROUP)
        account = loading.load_auth_from_conf_options(conf, GROUP)
        if account is None:
            return None
        timeout = conf[GROUP].timeout
        if timeout < 1:
            raise errors.ConfigurationError(f"[{GROUP}] timeout is {timeout}: it takes at least 1 second")
        session = loading.load_session_from_conf_options(conf, GROUP, auth=account)
        adapter = loading.load_adapter_from_conf_options(
            conf, GROUP, session=session, auth=account, default_microversion=MICROVERSION
        )
        return PlacementClient(adapter, timeout)
    except (exceptions.ClientException, cfg.Error, ValueError, TypeError) as error:
        raise errors.ConfigurationError(f"section [{GROUP}]: {error}") from None


def required(conf: cfg.ConfigOpts) -> PlacementClient:
    """Return a client of Placement.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable section or one without an account.
    """
    client = from_conf(conf)
    if client is None:
        raise errors.ConfigurationError(
            f"[quota] usage_source is placement (or count_usage_from_placement is set), and the section [{GROUP}] "
            "names no account to ask OpenStack Placement as: set auth_type and its options, as for Nova"
        )
    return client


def list_library_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options, which all belong to keystoneauth1, including options of the usual kinds of accounts."""
    from keystoneauth1 import loading

    options = (*_adapter_options(), *_session_options(), *loading.get_auth_common_conf_options())
    options_by_name = {option.dest: option for option in options}
    for account_type in ("password", "v3applicationcredential"):
        for option in loading.get_auth_plugin_conf_options(account_type):
            options_by_name.setdefault(option.dest, option)
    return [(GROUP, list(options_by_name.values()))]


def _adapter_options() -> list[cfg.Opt]:
    from keystoneauth1 import loading

    options: list[cfg.Opt] = loading.get_adapter_conf_options(include_deprecated=False)
    cfg.set_defaults(options, service_type="placement", valid_interfaces=["internal", "public"])
    return options


def _session_options() -> list[cfg.Opt]:
    from keystoneauth1 import loading

    options: list[cfg.Opt] = loading.get_session_conf_options()
    cfg.set_defaults(options, timeout=_TIMEOUT)
    return options
