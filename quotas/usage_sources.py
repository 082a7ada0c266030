# SPDX-License-Identifier: Apache-2.0
"""The source of usage that the option ``[quota] usage_source`` names: the ledger, or one of an extension."""

from collections.abc import Callable
from typing import TypeAlias

from oslo_config import cfg

from tonnage import enabled_extensions, extension
from tonnage.capacity import errors
from tonnage.ledger.db.database import Database
from tonnage.quotas import options
from tonnage.quotas.options import Settings, Source

#: ``(conf, database, settings) -> settings``: returns the settings with the source of usage of an extension.
UsageSource: TypeAlias = Callable[[cfg.ConfigOpts, Database, Settings], Settings]

#: The sources that the core has.
_OF_THE_LEDGER = {Source.COUNTERS, Source.LEDGER}


def quota_settings(conf: cfg.ConfigOpts, database: Database) -> Settings:
    """Return the settings of quotas with the source of usage.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a source whose extension is not enabled, and the
    errors of that extension.
    """
    settings, source = options.from_conf(conf), options.source(conf)
    if source in _OF_THE_LEDGER:
        return settings
    declarations = enabled_extensions.enabled(conf)
    for declaration in declarations.values():
        if source in declaration.usage_sources:
            add_source: UsageSource = extension.load(declaration.usage_sources[source])
            return add_source(conf, database, settings)
    raise errors.ConfigurationError(
        f"[quota] usage_source is {source}, and no enabled extension counts usage from there: add {source} to "
        f"enabled_extensions, which is {', '.join(declarations) or 'empty'}"
    )
