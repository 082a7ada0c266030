# SPDX-License-Identifier: Apache-2.0
"""The backends of ``tonnage-standalone``: all in one process, on threads of their own."""

import logging
from collections.abc import Sequence
from concurrent import futures

from tonnage.agent import builder
from tonnage.agent.backend_agent import BackendAgent
from tonnage.capacity import errors
from tonnage.cli.daemons.backend_changes import BackendChanges, BackendConfiguration
from tonnage.rpc.transport import Transport

LOG = logging.getLogger(__name__)


class BackendThreads:
    """The backends that ``configuration`` enables, built but not started. Not thread-safe."""

    def __init__(self, configuration: BackendConfiguration, transport: Transport) -> None:
        self._transport = transport
        self._built = {
            section: builder.build_one(configuration.conf, transport, section) for section in configuration.enabled
        }
        self._running: dict[str, BackendAgent] = {}
        # Backends that are no longer enabled; they end by themselves.
        self._drained: dict[str, BackendAgent] = {}

    @property
    def names(self) -> set[str]:
        """The full names of the enabled backends whose storage can be used."""
        return {agent.backend for agent in self._running.values() if agent.trouble is None}

    @property
    def failure(self) -> str | None:
        """The message of the fatal failure of a backend, None if there is none."""
        return next((agent.failure for agent in self._running.values() if agent.failure is not None), None)

    def start(self) -> None:
        """Start each backend. Raises the errors of :meth:`~tonnage.agent.backend_agent.BackendAgent.start`."""
        for section, agent in self._built.items():
            agent.start()
            self._running[section] = agent

    def change(self, changes: BackendChanges) -> None:
        """Start backends that are new, restart those with changed options, and drain those no longer enabled.

        A restart takes as long as the running operations, at most :data:`~tonnage.agent.options.STOP_SECONDS`. The
        error of a backend that cannot start is logged.
        """
        for section in changes.removed:
            if agent := self._running.pop(section, None):
                agent.drain()
                self._drained[section] = agent
        begun = [*changes.added, *changes.changed]
        # A backend that is enabled again may still be draining.
        _stop(
            [agents.pop(section) for agents in (self._running, self._drained) for section in begun if section in agents]
        )
        for section in begun:
            agent = builder.build_one(changes.conf, self._transport, section)
            try:
                agent.start()
            except errors.TonnageError as error:
                LOG.error("Backend %s cannot start: %s", agent.backend, error.message)
            else:
                self._running[section] = agent

    def stop(self) -> None:
        """Stop all backends in parallel. Each waits for its operations, and oslo.messaging takes a second or two."""
        _stop([*self._running.values(), *self._drained.values()])


def _stop(agents: Sequence[BackendAgent]) -> None:
    with futures.ThreadPoolExecutor(max(1, len(agents)), thread_name_prefix="stop") as pool:
        list(pool.map(BackendAgent.stop, agents))
