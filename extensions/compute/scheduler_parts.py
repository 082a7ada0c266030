# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler: it looks up the hosts of instances before requests are decided."""

from oslo_config import cfg

from tonnage.extensions.compute import nova
from tonnage.extensions.compute.instance_hosts import InstanceHosts
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the parts: none if the section ``[nova]`` names no account.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable section.
    """
    client = nova.from_conf(conf)
    if client is None:
        return SchedulerParts()
    instance_hosts = InstanceHosts(context.database, client)
    return SchedulerParts(preparations=[instance_hosts], closers=[instance_hosts.stop])


def validate(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable section ``[nova]``."""
    nova.from_conf(conf)
