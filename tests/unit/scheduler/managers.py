# SPDX-License-Identifier: Apache-2.0
"""The settings, rules and managers of schedulers within a test's process."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db.database import Database
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.pool_selection import Rules
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

_DEFAULTS = {
    "host": "here",
    "availability_zone": "nova",
    "calculation": Calculation.CINDER,
    "default_ratio": 20.0,
    "service_down_time": 60.0,
    "max_attempts": 3,
    "batch_size": 64,
    "claim_lease": 60.0,
}


def settings(**changes: Any) -> Settings:
    """Return the settings of a scheduler that is usual in tests, with changes."""
    return Settings(**_DEFAULTS | changes)


def manager(
    ledger: Database,
    agents: Any,
    settings: Settings,
    filters: Sequence[type[Any]] = (),
    weighers: Sequence[type[Any]] = (CapacityWeigher,),
    **parts: Any,
) -> SchedulerManager:
    """Return a scheduler that decides by filters and weighers of these classes.

    ``parts`` are further arguments of :class:`SchedulerManager`: clock, builders, thread.
    """
    conf = SimpleNamespace(over_provisioning_calculation=settings.calculation, capacity_weight_multiplier=1.0)
    chain = FilterChain([kind(conf) for kind in filters], settings.calculation)
    rules = Rules(chain, WeigherChain([kind(conf) for kind in weighers]), settings.calculation)
    return SchedulerManager(settings, ledger, agents, rules, **parts)
