# SPDX-License-Identifier: Apache-2.0
"""What a client says when nobody answers."""

import dataclasses
import socket
import threading
import time
from typing import Any

import pytest

from tests.unit.rpc import bus as memory_bus
from tonnage.capacity import errors
from tonnage.rpc import contract, messages, transport
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.packed_reports import PackedReport


def test_a_timeout_names_the_method_and_the_seconds() -> None:
    with memory_bus.memory_transport(response_timeout=1) as bus, pytest.raises(errors.NoAnswer) as caught:
        SchedulerClient(bus).call(contract.GET_POOLS, messages.PoolQuery())
    assert str(caught.value) == "no scheduler answered get_pools within rpc_response_timeout = 1 s"


def test_a_hello_is_given_up_sooner_so_that_it_is_said_again() -> None:
    hello = messages.Hello(backend="h@b", nonce="n", availability_zone="nova", driver="memory")
    with memory_bus.memory_transport(response_timeout=60) as bus, pytest.raises(errors.Unavailable) as caught:
        SchedulerClient(bus).call(contract.HELLO, hello)
    assert str(caught.value) == "no scheduler answered hello within 5 s"


def test_a_bus_that_is_away_is_unavailable_and_blocks_no_caller() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        url = f"rabbit://guest:guest@127.0.0.1:{taken.getsockname()[1]}/"
        with memory_bus.memory_transport(url=url) as bus:
            client = SchedulerClient(bus)
            report = messages.BackendReport(backend="h@b", epoch=1, seq=1, covers=1, pools=[])
            with pytest.raises(errors.Unavailable, match="the message bus did not take get_pools for the scheduler: "):
                client.call(contract.GET_POOLS, messages.PoolQuery())
            with pytest.raises(errors.Unavailable, match="the message bus did not take report for the scheduler: "):
                client.cast(contract.REPORT, PackedReport.of(report))


class FrozenScheduler:
    """A scheduler that has frozen after it has taken messages. ``taken`` has their number."""

    def __init__(self) -> None:
        self.taken = 0
        self.thawed = threading.Event()

    def get_pools(self, ctxt: Any, message: Any) -> Any:
        self.taken += 1
        self.thawed.wait(30)
        return []

    explain = set_backend_state = get_pools


def test_a_call_without_an_answer_is_sent_again() -> None:
    with memory_bus.memory_transport(response_timeout=2) as bus:
        frozen = FrozenScheduler()
        server = transport.server(bus, transport.TOPIC_SCHEDULER, "frozen", frozen)
        server.start()
        peer = transport.Peer(bus, transport.TOPIC_SCHEDULER, "scheduler", resend_after=0.5)
        create = messages.CreateVolume(request_id="r", volume_id="v", size_gb=1, project_id="p")
        try:
            with pytest.raises(errors.Unavailable, match="no scheduler answered get_pools within rpc_response_timeout"):
                peer.call(contract.GET_POOLS, messages.PoolQuery())
            assert frozen.taken == 3, "after 0.5 seconds, 1 more and 0.5 more"
            with pytest.raises(errors.Unavailable, match="no scheduler answered explain within 1 s"):
                peer.call(dataclasses.replace(contract.EXPLAIN, timeout=1.0), create)
            assert frozen.taken == 4
        finally:
            frozen.thawed.set()
            server.stop()
            server.wait()


def test_a_change_without_a_key_is_sent_once() -> None:
    with memory_bus.memory_transport(response_timeout=6) as bus:
        frozen = FrozenScheduler()
        server = transport.server(bus, transport.TOPIC_SCHEDULER, "frozen", frozen)
        server.start()
        change = messages.SetBackendState(backend="h@b", state=messages.BackendState.DISABLED)
        try:
            with pytest.raises(errors.Unavailable, match="no scheduler answered set_backend_state within"):
                SchedulerClient(bus).call(contract.SET_BACKEND_STATE, change)
            assert frozen.taken == 1
        finally:
            frozen.thawed.set()
            server.stop()
            server.wait()


class Declining:
    """A scheduler that declines the first calls. ``calls`` has the number of those that it has got."""

    def __init__(self, error: errors.Unavailable, declined: int) -> None:
        self.calls = 0
        self._error, self._declined = error, declined

    def require_ready(self) -> None:
        self.calls += 1
        if self.calls <= self._declined:
            raise self._error

    def get_pools(self, ctxt: Any, message: Any) -> Any:
        return []


@pytest.mark.parametrize("error", [errors.Declined("stuck"), errors.DatabaseUnreachable("away")])
def test_a_declined_call_is_sent_again(error: errors.Unavailable) -> None:
    with memory_bus.memory_transport(response_timeout=60) as bus:
        scheduler = Declining(error, 3)
        server = transport.server(bus, transport.TOPIC_SCHEDULER, "one", scheduler, scheduler)
        server.start()
        try:
            assert SchedulerClient(bus).call(contract.GET_POOLS, messages.PoolQuery()) == []
        finally:
            server.stop()
            server.wait()
    assert scheduler.calls == 4


def test_a_scheduler_with_a_database_is_not_sought_until_the_timeout() -> None:
    with memory_bus.memory_transport(response_timeout=600) as bus:
        scheduler = Declining(errors.DatabaseUnreachable("the database does not answer"), 10**6)
        server = transport.server(bus, transport.TOPIC_SCHEDULER, "one", scheduler, scheduler)
        server.start()
        try:
            with pytest.raises(errors.DatabaseUnreachable, match=r"^the database does not answer$"):
                SchedulerClient(bus).call(contract.GET_POOLS, messages.PoolQuery())
        finally:
            server.stop()
            server.wait()


class Refusing:
    """A scheduler whose ledger takes no writes. The first ``silent`` calls come too late for the caller."""

    def __init__(self, silent: int) -> None:
        self._silent = silent

    def get_pools(self, ctxt: Any, message: Any) -> Any:
        self._silent -= 1
        if self._silent >= 0:
            time.sleep(0.5)
        raise errors.LedgerRefusal("the disk is full")


@pytest.mark.parametrize(("silent", "error_class"), [(0, errors.LedgerRefusal), (1, errors.DatabaseUnreachable)])
def test_a_refusal_after_a_call_without_an_answer_is_no_certain_one(
    silent: int, error_class: type[errors.TonnageError]
) -> None:
    with memory_bus.memory_transport(response_timeout=60) as bus:
        endpoint = Refusing(silent)
        server = transport.server(bus, transport.TOPIC_SCHEDULER, "one", endpoint, None)
        server.start()
        try:
            peer = transport.Peer(bus, transport.TOPIC_SCHEDULER, "scheduler", resend_after=0.2)
            with pytest.raises(errors.DatabaseUnreachable, match=r"^the disk is full$") as caught:
                peer.call(contract.GET_POOLS, messages.PoolQuery())
        finally:
            server.stop()
            server.wait()
    assert type(caught.value) is error_class


class Rubbish:
    """A scheduler of some other release: nobody here understands what it answers."""

    def get_pools(self, ctxt: Any, message: Any) -> Any:
        return "some"

    def request_batch(self, ctxt: Any, message: Any) -> Any:
        return ["done"]


def test_a_malformed_answer_is_not_an_invalid_request() -> None:
    """Least of all where it may have been done: a 400 says that nothing was."""
    request = messages.CreateVolume(request_id="r", volume_id="v", size_gb=1, project_id="p")
    with memory_bus.memory_transport(response_timeout=60) as bus:
        server = transport.server(bus, transport.TOPIC_SCHEDULER, "other", Rubbish())
        server.start()
        said = "the answer cannot be read"
        with pytest.raises(errors.Unavailable, match=said):
            SchedulerClient(bus).call(contract.CREATE_VOLUME, request)
        with pytest.raises(errors.Unavailable, match=said):
            SchedulerClient(bus).call(contract.GET_POOLS, messages.PoolQuery())
        server.stop()
        server.wait()
