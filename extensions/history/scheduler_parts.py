# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler: it writes the history and makes the forecasts."""

import functools

from oslo_config import cfg

from tonnage.extensions.history import daily_forecasts, history_writer, last_forecasts
from tonnage.extensions.history.daily_forecasts import Forecaster
from tonnage.extensions.history.history_thread import Forecasts, HistoryThread
from tonnage.extensions.history.history_writer import HistoryWriter
from tonnage.extensions.history.refusal_forecasts import RefusalForecaster
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the parts."""
    database = context.database
    forecasters: list[Forecasts] = [
        Forecaster(database),
        RefusalForecaster(database, context.simulator, context.snapshots),
    ]
    writer = HistoryWriter(database, context.settings.service_down_time)
    return SchedulerParts(
        background=[HistoryThread(writer, forecasters, context.membership)],
        growth_forecasts=[functools.partial(last_forecasts.growth, database)],
        purges=[history_writer.purge, daily_forecasts.purge],
    )
