# SPDX-License-Identifier: Apache-2.0
"""The part of an extension that runs in a scheduler.

An extension names a function ``(conf, context) -> SchedulerParts`` as the part ``scheduler`` of its declaration. The
scheduler calls it when it is built, before it decides anything.

An exception of a hook that is called in a transaction rolls that transaction back; one that is called after a commit is
logged. Both name the extension. Hooks in transactions lock rows after those that the core has locked, in the one order
of locks of docs/ledger.rst, and never commit. All schedulers must enable the same extensions that have such hooks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from oslo_config import cfg

from tonnage.extension import Hook
from tonnage.ledger.db.database import Database
from tonnage.rpc.handlers import RpcHandler
from tonnage.rpc.messages import Answer
from tonnage.scheduler.agents.report_observer import ReportObserver
from tonnage.scheduler.cache.host_manager import HostManager
from tonnage.scheduler.cluster.membership import Membership
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.decisions.decision_observer import DecisionObserver
from tonnage.scheduler.observers.extension_events import EventObserver, ExtensionEvents
from tonnage.scheduler.periodic.periodic_tasks import PurgeFunction
from tonnage.scheduler.requests.placement_requests import Move
from tonnage.scheduler.requests.preparation import Preparation
from tonnage.scheduler.simulation.adviser import Adviser
from tonnage.scheduler.simulation.growth_forecasts import GrowthForecast, GrowthForecasts
from tonnage.scheduler.simulation.simulator import DecisionSnapshots, Simulator


@dataclass(frozen=True, slots=True)
class SchedulerContext:
    """The objects of a scheduler that the parts of extensions use.

    ``hosts`` belongs to the decision thread; ``snapshots`` copies the pools for other threads. ``membership`` tells
    whether some work, which one scheduler does for all, is the turn of this one. ``clock`` returns monotonic seconds.

    ``move`` decides the request of an extension to move a volume, as that of a client, and returns after the commit. It
    is called in threads of the extension, not while the decision thread calls the extension. ``events`` are for events
    that other extensions announce. ``growth_forecasts`` reads the forecasts of other extensions, once all are built.
    """

    settings: Settings
    database: Database
    hosts: HostManager
    membership: Membership
    simulator: Simulator
    snapshots: DecisionSnapshots
    clock: Callable[[], float]
    move: Callable[[Move], Answer]
    events: ExtensionEvents
    growth_forecasts: GrowthForecasts = field(default_factory=GrowthForecasts)


class BackgroundWork(Protocol):
    """Threads of an extension."""

    def start(self) -> None:
        """Start, after the scheduler has loaded the ledger."""

    def stop(self) -> None:
        """End, after the last decision."""


#: Reads a changed configuration, and returns a function that applies it on the decision thread. Raises
#: :class:`~tonnage.capacity.errors.ConfigurationError` for unusable values; then nothing is changed.
Reload: TypeAlias = Callable[[cfg.ConfigOpts], Callable[[], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerParts:
    """The objects of an extension that a scheduler calls; all are optional.

    ``rpc_handlers`` serve RPC methods of the extension, on threads of the server. ``growth_forecasts`` are for other
    extensions, which read them in threads of their own. ``closers`` are called last, for files and pools of threads.
    """

    report_observers: Sequence[ReportObserver] = ()
    decision_observers: Sequence[DecisionObserver] = ()
    event_observers: Sequence[EventObserver] = ()
    preparations: Sequence[Preparation] = ()
    advisers: Sequence[Adviser] = ()
    growth_forecasts: Sequence[GrowthForecast] = ()
    rpc_handlers: Sequence[RpcHandler[Any, Any]] = ()
    purges: Sequence[PurgeFunction] = ()
    background: Sequence[BackgroundWork] = ()
    reloads: Sequence[Reload] = ()
    closers: Sequence[Callable[[], None]] = ()


#: Builds the parts of an extension, without the configuration.
PartsBuilder: TypeAlias = Callable[[SchedulerContext], SchedulerParts]


@dataclass(slots=True)
class ExtensionParts:
    """The parts of all extensions of a scheduler, in the order of ``enabled_extensions``."""

    report_observers: list[ReportObserver] = field(default_factory=list)
    decision_observers: list[DecisionObserver] = field(default_factory=list)
    preparations: list[Preparation] = field(default_factory=list)
    advisers: list[Adviser] = field(default_factory=list)
    rpc_handlers: list[RpcHandler[Any, Any]] = field(default_factory=list)
    purges: list[PurgeFunction] = field(default_factory=list)
    background: list[BackgroundWork] = field(default_factory=list)
    reloads: list[Reload] = field(default_factory=list)
    closers: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def build(cls, builders: Mapping[str, PartsBuilder], context: SchedulerContext) -> "ExtensionParts":
        """Build the parts of extensions by their names."""
        merged = cls()
        for name, builder in builders.items():
            parts = builder(context)
            hooks: list[Hook] = [
                *parts.report_observers,
                *parts.decision_observers,
                *parts.event_observers,
                *parts.preparations,
                *parts.advisers,
            ]
            for hook in hooks:
                hook.extension = name
            merged.report_observers += parts.report_observers
            merged.decision_observers += parts.decision_observers
            if parts.event_observers:
                context.events.observers += parts.event_observers
            if parts.growth_forecasts:
                context.growth_forecasts.sources += parts.growth_forecasts
            merged.preparations += parts.preparations
            merged.advisers += parts.advisers
            merged.rpc_handlers += parts.rpc_handlers
            merged.purges += parts.purges
            merged.background += parts.background
            merged.reloads += parts.reloads
            merged.closers += parts.closers
        return merged

    def start(self) -> None:
        """Start the threads of the extensions."""
        for work in self.background:
            work.start()

    def stop(self) -> None:
        """Stop the threads, the last one first, and close the rest."""
        for work in reversed(self.background):
            work.stop()
        for close in self.closers:
            close()
