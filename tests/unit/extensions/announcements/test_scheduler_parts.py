# SPDX-License-Identifier: Apache-2.0
"""The announcements of a whole scheduler."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from tests.unit.scheduler.conftest import *  # noqa: F403
from tests.unit.scheduler.conftest import Clock
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.extensions.announcements import options
from tonnage.extensions.announcements.announcer import Announcer, AnnouncerConfig
from tonnage.extensions.announcements.capacity_alerts import CapacityAlerts
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db import database
from tonnage.scheduler.configuration.settings import ReloadableSettings
from tonnage.scheduler.extension_parts import PartsBuilder, SchedulerContext, SchedulerParts
from tonnage.scheduler.manager import SchedulerManager
from tonnage.weighers.chain import WeigherChain


def announcements(percent: float) -> AnnouncerConfig:
    return AnnouncerConfig(options.Settings("here", [], False, options.Thresholds(percent), []))


@pytest.fixture
def announcer(ledger: database.Database) -> Announcer:
    return Announcer(ledger, announcements(90.0), None)


@pytest.fixture
def builders(announcer: Announcer) -> Mapping[str, PartsBuilder]:
    def build(context: SchedulerContext) -> SchedulerParts:
        return SchedulerParts(report_observers=[CapacityAlerts(context.hosts, announcer)])

    return {"announcements": build}


def test_they_change_with_all_else_or_not_at_all(
    core: SchedulerManager, announcer: Announcer, clock: Clock, join: Callable[[], None]
) -> None:
    [alerts] = core.extensions.report_observers
    assert isinstance(alerts, CapacityAlerts)

    def settings(ratio: float, *percent: float) -> ReloadableSettings:
        changes = [partial(alerts.change, announcements(share)) for share in percent]
        return ReloadableSettings(FilterChain([]), WeigherChain([]), Calculation.CINDER, ratio, changes)

    core.change(settings(20.0, 80.0))
    assert announcer.thresholds.percent == 80.0
    core.change(settings(20.0))
    join()
    clock.step = 20.0  # the other one does not agree in time
    with pytest.raises(errors.ConfigurationError, match="on scheduler other"):
        core.change(settings(3.0, 70.0))
    assert announcer.thresholds.percent == 80.0
