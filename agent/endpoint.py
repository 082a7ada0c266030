# SPDX-License-Identifier: Apache-2.0
"""The RPC methods of one backend's agent. All of them are casts."""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from tonnage.agent.operations import Operations
from tonnage.capacity import errors
from tonnage.rpc import serialization
from tonnage.rpc.messages import Command, SharedStorages

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _UncheckedCommands:
    """Commands before their validation: a malformed command has no effect on the others."""

    commands: list[Any]


class Handler(Protocol):
    """The receiver of the decoded messages that are not commands."""

    backend: str

    def report_now(self) -> None: ...

    def list_now(self) -> None: ...

    def take_stamps(self, storage_ids: Collection[str]) -> None: ...

    def rejoin(self) -> None: ...


class AgentEndpoint:
    """Decodes messages and passes them on at once: all longer work runs on other threads."""

    def __init__(self, agent: Handler, operations: Operations) -> None:
        self._agent = agent
        self._operations = operations

    def run(self, context: Any, message: Any) -> None:
        """Accept commands."""
        try:
            unchecked = serialization.unpack(message, _UncheckedCommands).commands
        except errors.InvalidInput as error:
            LOG.warning("Backend %s ignores commands: %s", self._agent.backend, error.message)
            return
        for packed_command in unchecked:
            try:
                command = serialization.unpack(packed_command, Command)
            except errors.InvalidInput as error:
                LOG.warning("Backend %s ignores a command: %s", self._agent.backend, error.message)
                continue
            self._operations.submit(command)

    def report_now(self, context: Any) -> None:
        """Request a report soon."""
        self._agent.report_now()

    def list_now(self, context: Any) -> None:
        """Request a listing of all volumes soon."""
        self._agent.list_now()

    def take_stamps(self, context: Any, message: Any) -> None:
        """Record storages that other backends share."""
        try:
            storage_ids = serialization.unpack(message, SharedStorages).storage_ids
        except errors.InvalidInput as error:
            LOG.warning("Backend %s ignores the names of shared storages: %s", self._agent.backend, error.message)
            return
        self._agent.take_stamps(storage_ids)

    def rejoin(self, context: Any) -> None:
        """Request a new hello of the backend."""
        self._agent.rejoin()
