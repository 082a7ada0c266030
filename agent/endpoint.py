# SPDX-License-Identifier: Apache-2.0
"""The RPC methods of one backend's agent. All of them are casts.

============  =========  =====================================================================
method        message    meaning
============  =========  =====================================================================
run           Commands   operations on volumes, taken in their order
report_now               report soon
list_now                 list all volumes soon
take_stamps   Shared-    take stamps before each look at these storages, and report soon
              Storages
rejoin                   the ledger does not know this agent's epoch; say hello again
============  =========  =====================================================================
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from tonnage.capacity import errors
from tonnage.rpc import serialization
from tonnage.rpc.messages import Command, SharedStorages

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Packed:
    """Commands as they arrive: one that is malformed spoils no other."""

    commands: list[Any]


class Handler(Protocol):
    """What the methods are handed to."""

    backend: str

    def run(self, command: Command) -> None: ...

    def report_now(self) -> None: ...

    def list_now(self) -> None: ...

    def take_stamps(self, storage_ids: Collection[str]) -> None: ...

    def rejoin(self) -> None: ...


class AgentEndpoint:
    """Decodes and hands over, at once: everything that takes time happens on other threads."""

    def __init__(self, agent: Handler) -> None:
        self._agent = agent

    def run(self, context: Any, message: Any) -> None:
        """Take commands in, each for itself."""
        try:
            packed = serialization.unpack(message, _Packed).commands
        except errors.InvalidInput as error:
            LOG.warning("Backend %s ignores commands: %s", self._agent.backend, error.message)
            return
        for each in packed:
            try:
                command = serialization.unpack(each, Command)
            except errors.InvalidInput as error:
                LOG.warning("Backend %s ignores a command: %s", self._agent.backend, error.message)
                continue
            self._agent.run(command)

    def report_now(self, context: Any) -> None:
        """Have a report sent soon."""
        self._agent.report_now()

    def list_now(self, context: Any) -> None:
        """Have all volumes listed soon."""
        self._agent.list_now()

    def take_stamps(self, context: Any, message: Any) -> None:
        """Have stamps taken of storages that other backends share."""
        try:
            storage_ids = serialization.unpack(message, SharedStorages).storage_ids
        except errors.InvalidInput as error:
            LOG.warning("Backend %s ignores the names of shared storages: %s", self._agent.backend, error.message)
            return
        self._agent.take_stamps(storage_ids)

    def rejoin(self, context: Any) -> None:
        """Have the backend introduced again."""
        self._agent.rejoin()
