# SPDX-License-Identifier: Apache-2.0
"""A driver whose methods tests can block, and the RPC methods of schedulers."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Source, StoredVolume, Volume
from tonnage.rpc import contract, messages, serialization
from tonnage.rpc.clients.command_sender import AgentClient
from tonnage.rpc.packed_reports import PackedReport
from tonnage.rpc.transport import Transport

DEADLINE = 60.0


@dataclass
class Owner:
    """The owner of operations."""

    on_outcome: Callable[[messages.Outcome], object]
    on_crash: Callable[[BaseException], object]


def eventually(condition: Callable[[], Any], what: str = "") -> Any:
    """Return the condition's value once it is true; fail after a deadline."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < end, f"not in {DEADLINE} s: {what or condition}"
        time.sleep(0.005)
    return value


def command(claim_id: str, volume_id: str, verb: messages.Verb = messages.Verb.CREATE, **more: Any) -> messages.Command:
    """Return a command of epoch 1 for 2 GiB."""
    given = {"epoch": 1, "size_gb": 2, "pool": "pool", "request_id": "req-1"} | more
    return messages.Command(
        claim_id=claim_id,
        volume_id=volume_id,
        verb=verb,
        provisioning=Provisioning.THIN,
        ratio=20.0,
        calculation=Calculation.CINDER,
        **given,
    )


class GatedDriver(Driver):
    """A driver with volumes in a dictionary. A closed gate blocks the method of its name after its entry.

    The method of that name raises each error in ``failures`` once, and calls its function in ``on_entry`` each time.
    ``given`` has the arguments of all calls that make or extend a volume; ``pools`` are reported instead of the pool
    with the volumes.
    """

    supports_thin = True
    supports_extend = True

    def __init__(self, backend: str = "host@backend") -> None:
        super().__init__(backend, None)
        self.volumes: dict[str, float] = {}
        self.failures: dict[str, list[BaseException]] = {}
        self.on_entry: dict[str, Callable[[], object]] = {}
        self.news: Callable[[], bool] = lambda: False
        self.pools: Sequence[Mapping[str, Any]] = ()
        self.storage: str | None = None
        self.can_mark = True
        self.ledger_mark: str | None = None
        self.calls: list[str] = []
        self.given: list[tuple[Any, ...]] = []
        self.running = 0
        self.most_running = 0
        self._lock = threading.Lock()
        self._gates: dict[str, threading.Event] = {}
        self.entered: dict[str, threading.Semaphore] = {}

    def close_gate(self, name: str) -> Callable[[], None]:
        """Close a gate, ``method`` or ``method volume``, and return a function that opens it."""
        gate = self._gates[name] = threading.Event()
        self.entered[name] = threading.Semaphore(0)
        return gate.set

    def await_entry(self, name: str) -> None:
        """Wait until a thread is blocked at a closed gate."""
        assert self.entered[name].acquire(timeout=DEADLINE), f"no thread entered {name}"

    def enter(self, method: str, volume_id: str = "") -> None:
        name = f"{method} {volume_id}".strip()
        with self._lock:
            self.calls.append(name)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        try:
            for gate in {method, name} & self._gates.keys():
                self.entered[gate].release()
                assert self._gates[gate].wait(DEADLINE), f"gate {gate} stayed closed"
            if method in self.on_entry:
                self.on_entry[method]()
            failures = self.failures.get(method)
            if failures:
                raise failures.pop(0)
        finally:
            with self._lock:
                self.running -= 1

    def check(self) -> None:
        self.enter("check")

    def ledger_marks(self) -> Mapping[str, str | None]:
        return {"pool": self.ledger_mark} if self.can_mark else {}

    def mark_ledger(self, mark: str) -> None:
        self.enter("mark")
        self.ledger_mark = self.ledger_mark or mark

    def has_news(self) -> bool:
        return self.news()

    def report(self) -> Sequence[Mapping[str, Any]]:
        seen = sum(self.volumes.values())
        self.enter("report")
        return self.pools or [
            {
                "pool_name": "pool",
                "total_capacity_gb": 100.0,
                "free_capacity_gb": 100.0,
                "provisioned_capacity_gb": seen,
                "thin_provisioning_support": True,
                "storage_id": self.storage,
            }
        ]

    def create(self, volume: Volume) -> None:
        self._make("create", volume)

    def extend(self, volume: Volume, new_size_gb: int) -> None:
        self.given.append((volume, new_size_gb))
        self.enter("extend", volume.id)
        self.volumes[volume.id] = new_size_gb

    def delete(self, volume: Volume) -> None:
        self.enter("delete", volume.id)
        self.volumes.pop(volume.id, None)

    def list_volumes(self) -> Sequence[StoredVolume]:
        self.enter("list")
        return [StoredVolume(id=id, pool="pool", size_gb=size) for id, size in sorted(self.volumes.items())]

    def _make(self, method: str, volume: Volume, *more: object) -> None:
        self.given.append((volume, *more))
        self.enter(method, volume.id)
        self.volumes[volume.id] = volume.size_gb


class CapableDriver(GatedDriver):
    """A driver that also copies volumes, and takes over objects of 7 GiB."""

    def clone(self, volume: Volume, source: Source) -> None:
        self._make("clone", volume, source)

    def migrate(self, volume: Volume, source: Source) -> None:
        self._make("migrate", volume, source)

    def manage(self, volume: Volume, reference: str) -> float:
        self._make("manage", volume, reference)
        return 7.0


class Scheduler:
    """The RPC methods that agents call. They count epochs and record all messages."""

    def __init__(self) -> None:
        self.hellos: list[messages.Hello] = []
        self.listings: list[messages.Listing] = []
        self.reports: list[messages.BackendReport] = []
        self.notices: list[messages.Notice] = []
        self.outcomes_received: list[messages.Outcome] = []
        #: Number of outcomes in each call.
        self.batch_sizes: list[int] = []
        self.queries: list[messages.StampQuery] = []
        self.shared_storages: list[str] = []
        self.epoch = 0
        self.nonce = ""
        self.ledger_id = ""
        #: The method of that name raises each error once.
        self.failures: dict[str, list[Exception]] = {}
        #: Called before an outcome of an unknown epoch is refused.
        self.unknown: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def _fail(self, method: str) -> None:
        with self._lock:
            failures = self.failures.get(method)
            if failures:
                raise failures.pop(0)

    def hello(self, context: Any, message: Any) -> messages.Welcome:
        hello = serialization.unpack(message, messages.Hello)
        self.hellos.append(hello)
        self._fail("hello")
        if hello.nonce != self.nonce:
            self.epoch, self.nonce = self.epoch + 1, hello.nonce
        return messages.Welcome(epoch=self.epoch, shared_storages=self.shared_storages, ledger_id=self.ledger_id)

    def listing(self, context: Any, message: Any) -> messages.Receipt:
        listing = serialization.unpack(message, messages.Listing)
        self._fail("listing")
        self.listings.append(listing)
        return messages.Receipt(accepted=listing.epoch == self.epoch)

    def outcomes(self, context: Any, message: Any) -> list[messages.Receipt]:
        outcomes = serialization.unpack(message, messages.Outcomes).outcomes
        self._fail("outcomes")
        self.batch_sizes.append(len(outcomes))
        self.outcomes_received += outcomes
        if any(outcome.epoch > self.epoch for outcome in outcomes):
            self.unknown()
            raise errors.Unavailable("the ledger does not know that epoch")
        return [messages.Receipt(accepted=outcome.epoch == self.epoch) for outcome in outcomes]

    def stamps(self, context: Any, message: Any) -> dict[str, int]:
        query = serialization.unpack(message, messages.StampQuery)
        self._fail("stamps")
        self.queries.append(query)
        return dict.fromkeys(query.storage_ids, len(self.queries))

    def report(self, context: Any, message: Any) -> None:
        self.reports.append(serialization.unpack(message, PackedReport).unpack())

    def notice(self, context: Any, message: Any) -> None:
        self.notices.append(serialization.unpack(message, messages.Notice))

    def outcome_of(self, claim_id: str) -> messages.Outcome:
        """Wait for the outcome of a claim."""

        def arrived() -> messages.Outcome | None:
            return next((outcome for outcome in self.outcomes_received if outcome.claim_id == claim_id), None)

        found = eventually(arrived, f"outcome of {claim_id}")
        assert isinstance(found, messages.Outcome)
        return found


class Calls:
    """The calls of schedulers to agents."""

    def __init__(self, bus: Transport) -> None:
        self._client = AgentClient(bus)

    def run(self, backend: str, commands: Sequence[messages.Command]) -> None:
        self._client.cast(backend, contract.RUN, messages.Commands(commands=list(commands)))

    def report_now(self, backend: str) -> None:
        self._client.cast(backend, contract.REPORT_NOW, None)

    def list_now(self, backend: str) -> None:
        self._client.cast(backend, contract.LIST_NOW, None)

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None:
        self._client.cast(backend, contract.TAKE_STAMPS, messages.SharedStorages(storage_ids=list(storage_ids)))

    def rejoin(self, backend: str) -> None:
        self._client.cast(backend, contract.REJOIN, None)


TROUBLE = errors.Unavailable("the database is away")
