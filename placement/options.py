# SPDX-License-Identifier: Apache-2.0
"""The section ``[placement]``: the options of Nova's, for the account and the endpoint of OpenStack Placement.

Only who counts usage there waits for keystoneauth1 to be imported, which takes a quarter of a second.
"""

import os

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.placement.client import MICROVERSION, Placement

GROUP = "placement"

#: Seconds that Placement is given unless the option ``timeout`` says otherwise.
_TIMEOUT = 5

#: How oslo.config names options of the section in the environment.
_VARIABLES = f"OS_{GROUP.upper()}__"


def from_conf(conf: cfg.ConfigOpts) -> Placement | None:
    """Return what asks Placement, None where the section ``[placement]`` names no account to ask it as.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a section that cannot be used.
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
        return Placement(adapter, timeout)
    except (exceptions.ClientException, cfg.Error, ValueError, TypeError) as error:
        raise errors.ConfigurationError(f"section [{GROUP}]: {error}") from None


def required(conf: cfg.ConfigOpts) -> Placement:
    """Return the same. Raises :class:`~tonnage.capacity.errors.ConfigurationError` also if there is no account."""
    found = from_conf(conf)
    if found is None:
        raise errors.ConfigurationError(
            f"[quota] usage_source is placement (or count_usage_from_placement is set), and the section [{GROUP}] "
            "names no account to ask OpenStack Placement as: set auth_type and what goes with it, as for Nova"
        )
    return found


def list_library_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options, all of keystoneauth1, with those of the usual kinds of accounts."""
    from keystoneauth1 import loading

    options = (*_adapter_options(), *_session_options(), *loading.get_auth_common_conf_options())
    found = {option.dest: option for option in options}
    for kind in ("password", "v3applicationcredential"):
        for option in loading.get_auth_plugin_conf_options(kind):
            found.setdefault(option.dest, option)
    return [(GROUP, list(found.values()))]


def _adapter_options() -> list[cfg.Opt]:
    from keystoneauth1 import loading

    found: list[cfg.Opt] = loading.get_adapter_conf_options(include_deprecated=False)
    cfg.set_defaults(found, service_type="placement", valid_interfaces=["internal", "public"])
    return found


def _session_options() -> list[cfg.Opt]:
    from keystoneauth1 import loading

    found: list[cfg.Opt] = loading.get_session_conf_options()
    cfg.set_defaults(found, timeout=_TIMEOUT)
    return found
