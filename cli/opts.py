# SPDX-License-Identifier: Apache-2.0
"""All options of Tonnage by section, for the sample configuration and the reference in the documentation."""

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.agent import options as agent_options
from tonnage.api import options as api_options
from tonnage.drivers import loader
from tonnage.ledger.db import options as database_options
from tonnage.ledger.inventory import service_options
from tonnage.quotas import options as quota_options
from tonnage.rpc import options as rpc_options
from tonnage.scheduler.configuration import options as scheduler_options
from tonnage.scheduler.configuration import plugins


def list_opts() -> list[tuple[str | cfg.OptGroup | None, list[cfg.Opt]]]:
    """Return each section with its options. An option that several packages register is listed once."""
    sections: dict[str, tuple[str | cfg.OptGroup | None, list[cfg.Opt]]] = {}
    for group, options in (
        *rpc_options.list_opts(),
        *agent_options.list_opts(),
        *scheduler_options.list_opts(),
        *plugins.list_opts(),
        ("DEFAULT", service_options.OPTIONS),
        *api_options.list_opts(),
        *quota_options.list_opts(),
        *database_options.list_opts(),
        *loader.list_opts(),
        *enabled_extensions.list_opts(),
    ):
        section = sections.setdefault(str(getattr(group, "name", group)), (group, []))[1]
        section += [option for option in options if option not in section]
    return list(sections.values())
