# SPDX-License-Identifier: Apache-2.0
"""The RPC methods of one backend's agent. All of them are casts; all longer work runs on other threads."""

import logging
from collections.abc import Collection
from typing import Protocol

from tonnage.agent.operations import Operations
from tonnage.capacity import errors
from tonnage.rpc import contract, serialization
from tonnage.rpc.handlers import Endpoint, RpcHandler
from tonnage.rpc.messages import Command, Commands

LOG = logging.getLogger(__name__)


class Handler(Protocol):
    """The receiver of the messages that are not commands."""

    backend: str

    def report_now(self) -> None:
        """Send a report soon."""

    def list_now(self) -> None:
        """Send a listing of all volumes soon."""

    def take_stamps(self, storage_ids: Collection[str]) -> None:
        """Take stamps of these storages from now on; other backends share them."""

    def rejoin(self) -> None:
        """Say hello again."""


def build(agent: Handler, operations: Operations) -> Endpoint:
    """Return the endpoint of an agent, whose commands become ``operations``."""

    def run(message: Commands) -> None:
        for packed in message.commands:
            try:
                command = serialization.unpack(packed, Command)
            except errors.InvalidInput as error:
                LOG.warning("Backend %s ignores a command: %s", agent.backend, error.message)
                continue
            operations.submit(command)

    return Endpoint(
        f"Backend {agent.backend}",
        contract.AGENT_METHODS,
        [
            RpcHandler(contract.RUN, run),
            RpcHandler(contract.REPORT_NOW, lambda message: agent.report_now()),
            RpcHandler(contract.LIST_NOW, lambda message: agent.list_now()),
            RpcHandler(contract.TAKE_STAMPS, lambda message: agent.take_stamps(message.storage_ids)),
            RpcHandler(contract.REJOIN, lambda message: agent.rejoin()),
        ],
    )
