# SPDX-License-Identifier: Apache-2.0
"""The RPC methods of one backend's agent, version 1.0. All of them are casts.

============  =========  ==========================================================
method        message    meaning
============  =========  ==========================================================
run           Command    one operation on one volume
report_now               report soon
rejoin                   the ledger does not know this agent's epoch; say hello again
============  =========  ==========================================================
"""

import logging
from typing import Any
from typing import Protocol

from tonnage.capacity import errors
from tonnage.rpc import wire
from tonnage.rpc.messages import Command

LOG = logging.getLogger(__name__)


class Handler(Protocol):
    """What the methods are handed to."""

    backend: str

    def run(self, command: Command) -> None: ...

    def report_now(self) -> None: ...

    def rejoin(self) -> None: ...


class AgentEndpoint:
    """Decodes and hands over, at once: everything that takes time happens on other threads."""

    def __init__(self, agent: Handler) -> None:
        self._agent = agent

    def run(self, context: Any, message: Any) -> None:
        """Take a command in."""
        try:
            command = wire.unpack(message, Command)
        except errors.InvalidInput as error:
            LOG.warning("Backend %s ignores a command: %s", self._agent.backend, error.message)
            return
        self._agent.run(command)

    def report_now(self, context: Any) -> None:
        """Have a report sent soon."""
        self._agent.report_now()

    def rejoin(self, context: Any) -> None:
        """Have the backend introduced again."""
        self._agent.rejoin()
