# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler: it reads usage before decisions, and writes allocations after them."""

from collections.abc import Sequence

from oslo_config import cfg

from tonnage.extensions.placement import factory, options
from tonnage.extensions.placement.allocation_writer import AllocationWriter
from tonnage.extensions.placement.sync_thread import SyncThread
from tonnage.ledger.db.database import Database
from tonnage.quotas.external_usage import ExternalUsage
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts
from tonnage.scheduler.requests import quota_demands
from tonnage.scheduler.requests.preparation import Message, Preparation


class UsageReading(Preparation):
    """Reads the usage of the projects of requests, before anything is locked."""

    def __init__(self, database: Database, usage: ExternalUsage) -> None:
        self._database = database
        self._usage = usage

    def prepare(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Read the usage of the projects whose quotas the requests demand, and return the requests as they are."""
        self._usage.read(quota_demands.projects_of(self._database, messages))
        return messages


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the parts: none if usage is not counted from Placement.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable section ``[placement]``.
    """
    if not factory.is_enabled(conf):
        return SchedulerParts()
    writer = AllocationWriter(context.database, options.required(conf))
    return SchedulerParts(
        preparations=[UsageReading(context.database, context.settings.quotas.external_usage)],
        background=[SyncThread(writer, context.membership)],
    )
