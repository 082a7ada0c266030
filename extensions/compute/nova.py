# SPDX-License-Identifier: Apache-2.0
"""Asking Nova, the compute service, where instances run.

Its options are those of Cinder's section ``[nova]``. Only a configuration with that section waits for keystoneauth1
to be imported, which takes a quarter of a second.
"""

import logging
import os
import uuid
from typing import TYPE_CHECKING

import msgspec
from oslo_config import cfg

from tonnage.capacity import errors, type_conversion
from tonnage.capacity.request import Locality

if TYPE_CHECKING:
    from keystoneauth1.adapter import Adapter

LOG = logging.getLogger(__name__)

GROUP = "nova"

OPTIONS = [
    cfg.StrOpt("region_name", help="Region whose Nova is asked where instances run, where Keystone knows several."),
    cfg.StrOpt(
        "interface",
        default="public",
        choices=[
            ("public", "the one that users have"),
            ("internal", "the one for services"),
            ("admin", "the one for administrators"),
        ],
        help="Which of Nova's endpoints in Keystone's catalog is asked.",
    ),
]

#: Default of the option ``timeout`` in seconds, as in Cinder.
_TIMEOUT = 5

#: Codes of localities: Keystone or Nova does not answer, or refuses this account. The instance may exist.
UNAVAILABLE = "compute_unavailable"
NOT_PERMITTED = "compute_not_permitted"

#: How oslo.config names options of the section in the environment.
_VARIABLES = f"OS_{GROUP.upper()}__"


class _Server(msgspec.Struct):
    """An instance as Nova shows it. The host is missing if the account may not see it, and null if there is none."""

    host: str | msgspec.UnsetType | None = msgspec.field(name="OS-EXT-SRV-ATTR:host", default=msgspec.UNSET)
    tenant_id: str | None = None
    project_id: str | None = None

    @property
    def owners(self) -> set[str]:
        """The project of the instance, by the old name of the field and by the new one."""
        return {owner for owner in (self.tenant_id, self.project_id) if owner}


class _Shown(msgspec.Struct):
    server: _Server


class Nova:
    """A client of Nova that many threads may use. ``timeout`` is the seconds that Nova has for an answer."""

    def __init__(self, adapter: "Adapter", timeout: float) -> None:
        self._adapter = adapter
        self.timeout = timeout

    def locality(self, instance: str, project_id: str) -> Locality:
        """Return the host of an instance of a project or, for any problem, the reason why it is unknown.

        The account sees the instances of all projects. A project must learn neither that an instance of another project
        exists nor, by the place of its volume, on which host. The log has the details of a failure.
        """
        from keystoneauth1 import exceptions

        try:
            # The account's token, and where Nova is.
            endpoint = self._adapter.get_endpoint()
        except exceptions.EndpointNotFound:
            endpoint = None
        except exceptions.ClientException as error:
            LOG.warning("Keystone cannot be asked for Nova: %s", error)
            if isinstance(error, (exceptions.Unauthorized, exceptions.Forbidden)):
                LOG.warning("Keystone does not accept the account that the section [%s] names", GROUP)
                return cannot_be_asked(instance, NOT_PERMITTED)
            return cannot_be_asked(instance)
        if endpoint is None:
            LOG.warning("Keystone's catalog has no endpoint of Nova like that of the section [%s]", GROUP)
            return cannot_be_asked(instance)
        try:
            answer = self._adapter.get(f"/servers/{uuid.UUID(instance)}")
            server = type_conversion.decode(answer.content, _Shown).server
        except exceptions.NotFound:
            return _not_found(instance)
        except (exceptions.Unauthorized, exceptions.Forbidden) as error:
            LOG.warning("Nova does not show instance %s: %s", instance, error)
            return cannot_be_asked(instance, NOT_PERMITTED)
        except (exceptions.ClientException, msgspec.DecodeError) as error:
            LOG.warning("Nova at %s does not tell where instance %s runs: %s", endpoint, instance, error)
            return cannot_be_asked(instance)
        if not server.owners:
            LOG.warning("Nova at %s does not tell of which project instance %s is", endpoint, instance)
            return cannot_be_asked(instance)
        if server.owners != {project_id}:
            LOG.info("Instance %s is of project %s, not %s", instance, " and ".join(server.owners), project_id)
            return _not_found(instance)
        if server.host is msgspec.UNSET:
            LOG.warning("Nova at %s does not tell the account on which hosts instances run", endpoint)
            return cannot_be_asked(instance, NOT_PERMITTED)
        if not server.host:
            return Locality(code="instance_without_host", problem=f"instance {instance} is on no host yet")
        LOG.info("Instance %s runs on %s", instance, server.host)
        return Locality(server.host)


def cannot_be_asked(instance: str, code: str = UNAVAILABLE) -> Locality:
    """Return the one message that users get for all problems between Tonnage, Keystone and Nova."""
    return Locality(code=code, problem=f"the compute service (Nova) cannot be asked where instance {instance} runs")


def _not_found(instance: str) -> Locality:
    return Locality(code="instance_not_found", problem=f"Nova knows no instance {instance}")


def from_conf(conf: cfg.ConfigOpts) -> Nova | None:
    """Return a client of Nova, None if the section ``[nova]`` names no account.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable section.
    """
    if GROUP not in conf.list_all_sections() and not any(name.startswith(_VARIABLES) for name in os.environ):
        return None
    from keystoneauth1 import adapter, exceptions, loading

    try:
        conf.register_opts([*OPTIONS, *_session_options()], GROUP)
        loading.register_auth_conf_options(conf, GROUP)
        account = loading.load_auth_from_conf_options(conf, GROUP)
        section = conf[GROUP]
        if account is None:
            LOG.warning("The section [%s] has no auth_type, so Nova is not asked where instances run", GROUP)
            return None
        if section.timeout < 1:
            raise errors.ConfigurationError(f"[{GROUP}] timeout is {section.timeout}: it takes at least 1 second")
        session = loading.load_session_from_conf_options(conf, GROUP, auth=account)
        asking = adapter.Adapter(
            session, service_type="compute", interface=section.interface, region_name=section.region_name
        )
        return Nova(asking, section.timeout)
    except (exceptions.ClientException, cfg.Error, ValueError) as error:
        raise errors.ConfigurationError(f"section [{GROUP}]: {error}") from None


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return Tonnage's own options, for the sample configuration."""
    return [(GROUP, list(OPTIONS))]


def list_library_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options of keystoneauth1, with those of the usual kinds of accounts."""
    from keystoneauth1 import loading

    options = {option.dest: option for option in (*_session_options(), *loading.get_auth_common_conf_options())}
    for auth_type in ("password", "v3applicationcredential"):
        for option in loading.get_auth_plugin_conf_options(auth_type):
            options.setdefault(option.dest, option)
    return [(GROUP, list(options.values()))]


def _session_options() -> list[cfg.Opt]:
    from keystoneauth1 import loading

    options = loading.get_session_conf_options()
    cfg.set_defaults(options, timeout=_TIMEOUT)
    return options
