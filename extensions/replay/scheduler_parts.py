# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler: it records decisions, if the option ``decision_log`` names a file."""

from oslo_config import cfg

from tonnage.extensions.replay.decision_log import DecisionLog, LogFile
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the parts: none without a file.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a file that cannot be written, or that another
    process writes.
    """
    if not conf.decision_log:
        return SchedulerParts()
    file = LogFile(conf.decision_log)
    log = DecisionLog(file, context.settings.host, context.hosts, context.clock)
    return SchedulerParts(decision_observers=[log], closers=[file.close])
