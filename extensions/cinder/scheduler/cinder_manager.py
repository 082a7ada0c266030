# SPDX-License-Identifier: Apache-2.0
"""Cinder's scheduler manager with the ledger: reports that answer probes, and the threads that probe and poll."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cinder import context as cinder_context
from cinder.scheduler import manager
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.cinder import releases
from tonnage.extensions.cinder.growth.growth_commands import GrowthCommands
from tonnage.extensions.cinder.growth.growth_steps import Growing
from tonnage.extensions.cinder.ledger.probes import Probe
from tonnage.extensions.cinder.pools.native_plugins import NativePlugins
from tonnage.extensions.cinder.scheduler import (
    backend_states,
    cinder_ledger,
    ledger_options,
    recorded_requests,
    reported_figures,
)
from tonnage.extensions.cinder.scheduler.cinder_driver import LedgerScheduler, MovesToGrow, NoEffect
from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger
from tonnage.extensions.cinder.scheduler.prober import Prober
from tonnage.extensions.cinder.scheduler.row_poll import RowPoll
from tonnage.extensions.cinder.scheduler.volume_rows import VolumeRows
from tonnage.extensions.cinder.scheduler.waiting_requests import WaitingRequests
from tonnage.rpc import cinder_explanations, serialization, transport
from tonnage.rpc.cinder_explanations import PartialExplanation, Question
from tonnage.rpc.handlers import Endpoint, RpcHandler
from tonnage.worker import Worker

LOG = logging.getLogger(__name__)

CONF = cfg.CONF  # noqa: TID251  (Cinder's way)
ledger_options.register(CONF)

#: Seconds between two looks at the ledger for backends that need a probe.
_PROBE_TURN = 1.0

#: Seconds between two looks at the ledger for reports, and for claims of other schedulers.
_POOLS_TURN = 1.0

#: Seconds between two looks at the volumes that move to grow.
_GROWTH_TURN = 1.0

#: Seconds between two attempts to connect to the ledger on eventlet.
_CONNECT_TURN = 5.0

#: Seconds between two looks at Cinder's services for backends that it does not use, or uses again.
_PROBLEMS_TURN = 5.0


class LedgerSchedulerManager(manager.SchedulerManager):  # type: ignore[misc]
    """Cinder's manager. All RPC, heartbeats, user messages and quotas are Cinder's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ledger: CinderLedger | None = None
        self._prober: Prober | None = None
        self._growing: Worker | None = None
        #: The last report of each backend that answered a probe.
        self._probed: dict[str, Mapping[str, Any]] = {}
        explain = RpcHandler(cinder_explanations.EXPLAIN, self._explain)
        endpoint = Endpoint(cinder_explanations.SERVER, [cinder_explanations.EXPLAIN], [explain])
        self.additional_endpoints.append(serialization.Guarded(endpoint, cinder_explanations.SERVER, transport.VERSION))

    def init_host(self, *args: Any, **kwargs: Any) -> None:
        """Connect to the ledger, adopt all volumes and start the threads, in the process that serves."""
        _require_driver(self.driver)
        ledger = self._ledger = _connect()
        LOG.info("Requests are decided by the ledger at %s", ledger.database.engine.url.render_as_string())
        self.driver.connect(
            ledger,
            NativePlugins(CONF.tonnage.native_filters, CONF.tonnage.native_weighers),
            stock_if_away=CONF.tonnage.without_ledger == ledger_options.STOCK,
            timeout=CONF.tonnage.refusal_patience,
        )
        waiting = WaitingRequests(CONF.tonnage.undecided_after)
        rows = RowPoll(ledger, VolumeRows(), waiting, CONF.tonnage.full_poll_interval)
        self._prober = Prober(ledger, CONF.tonnage.probe_interval, self._backends_up, self._send)
        poll = _worker("tonnage-poll", rows.poll, CONF.tonnage.poll_interval)
        pools = _worker("tonnage-pools", ledger.pools.refresh_changed, _POOLS_TURN)
        probe = _worker("tonnage-probe", self._prober.probe, _PROBE_TURN)
        problems = _worker(
            "tonnage-problems", lambda: ledger.record_problems(backend_states.problems()), _PROBLEMS_TURN
        )
        commands = GrowthCommands(self.driver.host_manager.reported_pools, CONF.tonnage.growth_silence, ledger.renew)
        growing = Growing(ledger, commands, self._prober.request)
        self._growing = _worker("tonnage-growths", growing.turn, _GROWTH_TURN)
        poll.turn()
        pools.turn()
        for worker in (poll, pools, probe, problems, self._growing):
            worker.start()
        super().init_host(*args, **kwargs)

    def is_working(self) -> bool:
        """Return whether requests can be decided. While they cannot, Cinder shows this scheduler as down."""
        refuses = CONF.tonnage.without_ledger == ledger_options.REFUSE
        database = None if self._ledger is None else self._ledger.database
        is_useless = database is not None and (database.away or database.refusal is not None)
        return bool(super().is_working()) and not (refuses and is_useless)

    def update_service_capabilities(
        self,
        context: Any,
        service_name: str | None = None,
        host: str | None = None,
        capabilities: Any = None,
        cluster_name: str | None = None,
        timestamp: Any = None,
        **kwargs: Any,
    ) -> None:
        super().update_service_capabilities(
            context, service_name, host, capabilities, cluster_name, timestamp, **kwargs
        )
        ledger = self._ledger
        if service_name != "volume" or not capabilities or host is None or ledger is None:
            return
        try:
            self._report(ledger, context.request_id, host, cluster_name, capabilities)
        except errors.TonnageError as error:
            LOG.warning("The report of %s could not be applied: %s", cluster_name or host, error)

    def extend_volume(
        self, context: Any, volume: Any, new_size: Any, reservations: Any, *args: Any, **kwargs: Any
    ) -> None:
        moving: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if isinstance(self.driver, LedgerScheduler):
            moving = self.driver.extending(volume, new_size, reservations)
        try:
            with _quietly(), moving:
                super().extend_volume(context, volume, new_size, reservations, *args, **kwargs)
        except MovesToGrow:
            if self._growing is not None:
                self._growing.wake()

    def migrate_volume(self, context: Any, *args: Any, **kwargs: Any) -> None:
        with _quietly():
            super().migrate_volume(context, *args, **kwargs)

    def retype(self, context: Any, *args: Any, **kwargs: Any) -> None:
        with _quietly():
            super().retype(context, *args, **kwargs)

    def create_snapshot(self, ctxt: Any, *args: Any, **kwargs: Any) -> None:
        with _quietly():
            super().create_snapshot(ctxt, *args, **kwargs)

    def validate_host_capacity(self, context: Any, *args: Any, **kwargs: Any) -> bool:
        fits = False
        with _quietly():
            fits = bool(super().validate_host_capacity(context, *args, **kwargs))
        return fits

    def _report(
        self, ledger: CinderLedger, request_id: str, host: str, cluster: str | None, capabilities: Mapping[str, Any]
    ) -> None:
        backend = cluster or host
        probe = cinder_ledger.answered(backend, request_id)
        if probe is None:
            ledger.observe(backend)
            self._look_for_changes(backend, capabilities)
            return
        states = backend_states.pool_states(host, cluster, capabilities)
        usable, unusable = reported_figures.of_states(states, bounded=self.driver.host_manager.bounded)
        if unusable:
            names = ", ".join(sorted(unusable))
            LOG.warning("Backend %s reports figures that are no numbers: nothing fits in %s", backend, names)
        self._probed[backend] = capabilities
        if ledger.report(probe, usable):
            LOG.debug("Report %d of %s is applied", probe.number, backend)
        ledger.pools.refresh(())

    def _look_for_changes(self, backend: str, capabilities: Mapping[str, Any]) -> None:
        """Let a backend be probed if its figures have changed. Only the answer of a probe sets figures."""
        previous = self._probed.get(backend)
        if self._prober is not None and (previous is None or reported_figures.differ(previous, capabilities)):
            self._prober.request(backend)

    def _backends_up(self) -> Mapping[str, str]:
        backends: Mapping[str, str] = self.driver.host_manager.backends_up(cinder_context.get_admin_context())
        return backends

    def _send(self, probe: Probe) -> None:
        """Ask one cinder-volume of a backend for a report that repeats the request id."""
        context = cinder_context.get_admin_context()
        context.request_id = cinder_ledger.token(probe)
        self.volume_api._get_cctxt(probe.backend).cast(context, "publish_service_capabilities")

    def _explain(self, question: Question) -> PartialExplanation:
        """Return how a recorded request would be decided now."""
        explanation: PartialExplanation = self.driver.explain(recorded_requests.read(question.request), question.most)
        return explanation


def _require_driver(driver: Any) -> None:
    """End this process with one line in the log if Cinder has another scheduler driver."""
    if not isinstance(driver, LedgerScheduler):
        LOG.critical(
            "Option [DEFAULT] scheduler_driver is %s; with scheduler_manager = %s it has to be %s",
            CONF.scheduler_driver,
            CONF.scheduler_manager,
            f"{LedgerScheduler.__module__}.{LedgerScheduler.__qualname__}",
        )
        raise SystemExit(1)


def _connect() -> CinderLedger:
    """Return the ledger, and log in one line why there is none yet.

    As long as there is none this scheduler sends no heartbeats, so Cinder shows it as down. On threads this process
    ends, and Cinder's service starts another one. On eventlet Cinder has one process, which tries again.
    """
    while True:
        try:
            return cinder_ledger.connect(CONF.tonnage)
        except errors.ConfigurationError as error:
            problem = str(error)
        # Outside of the handler, or the log line has the text twice.
        LOG.critical(
            "The scheduler has no ledger, and tries again: %s. After a change of cinder.conf restart this service",
            problem,
        )
        if not releases.runs_on_eventlet():
            raise SystemExit(1)
        time.sleep(_CONNECT_TURN)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Let a message end that must have no effect."""
    try:
        yield
    except NoEffect as reason:
        LOG.warning("%s", reason)


def _worker(name: str, work: Callable[[], None], interval: float) -> Worker:
    """Return a worker that does work every ``interval`` seconds, also after an error."""
    return Worker(name, work, interval, interval, (errors.TonnageError,))
