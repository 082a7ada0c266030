# SPDX-License-Identifier: Apache-2.0
"""The scheduler client against a real server on the bus."""

import contextlib
import dataclasses
import datetime
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import pytest

from tests.unit.rpc import patience
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.decision import FilterOutcome, NearestMiss, Refusal, Rejection
from tonnage.capacity.explanation import Explanation, PoolVerdict, Weight
from tonnage.capacity.reports.hypothetical_pools import Changes
from tonnage.extensions.kubernetes.fit.node_fit_messages import (
    FIT_NODES,
    FitAnswer,
    FitQuery,
    NodePool,
    NodeRefusal,
    NodeVolume,
)
from tonnage.rpc import contract, messages, packed_reports, request_batch, serialization, transport
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.contract import Method
from tonnage.rpc.packed_reports import PackedReport
from tonnage.rpc.scheduler_server import SchedulerServer

METHODS = {method.name for method in (*contract.SCHEDULER_METHODS, FIT_NODES)}
CREATE = messages.CreateVolume(
    request_id="req-1", volume_id="v1", size_gb=500, project_id="p", volume_type="gold", metadata={"a": "b"}
)

NODE_POOL = NodePool(
    driver="disk.example.com", storage_class="fast", name="p", capacity=2**62, left=0, largest=None, expired=False
)


class Scheduler:
    """Notes what arrives and answers what it was given, or raises it."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.seen: queue.Queue[tuple[str, Any]] = queue.Queue()

    def __getattr__(self, method: str) -> Any:
        if method not in METHODS:
            raise AttributeError(method)

        def endpoint(context: Any, message: Any) -> Any:
            self.seen.put((method, message))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer(message) if callable(self.answer) else self.answer

        return endpoint


def _serve(message: Any, decide: Callable[[list[request_batch.BatchedRequest]], list[object]]) -> list[dict[str, Any]]:
    return request_batch.serve(serialization.unpack(message, messages.RequestBatch), decide)


@contextlib.contextmanager
def serving(bus: transport.Transport, endpoint: object, name: str = "one") -> Iterator[None]:
    server = SchedulerServer(bus, name, endpoint)
    server.start()
    yield
    server.stop()
    server.wait()


@pytest.fixture(scope="module")
def served(bus: transport.Transport) -> Iterator[Scheduler]:
    endpoint = Scheduler()
    with serving(bus, endpoint):
        yield endpoint


@pytest.fixture
def scheduler(served: Scheduler) -> Scheduler:
    served.answer, served.seen = None, queue.Queue()
    return served


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    patience.with_schedulers(monkeypatch)


@pytest.fixture
def client(bus: transport.Transport) -> SchedulerClient:
    return SchedulerClient(bus)


def test_a_request_has_a_time_of_the_ledger_before_it_was_sent(bus: transport.Transport, scheduler: Scheduler) -> None:
    now = datetime.datetime(2026, 3, 1, 12, 30)  # noqa: DTZ001  (the ledger's times are UTC without a zone)
    client = SchedulerClient(bus, lambda: now)
    client.call(contract.UNMANAGE_VOLUME, messages.UnmanageVolume(request_id="r", volume_id="v"))
    scheduler.answer = lambda message: [serialization.good(None) for _ in message["deletes"]]
    client.call(contract.DELETE_VOLUME, messages.DeleteVolume(request_id="r", volume_id="v"))
    (_, unmanage), (_, batch) = scheduler.seen.get(timeout=30), scheduler.seen.get(timeout=30)
    for sent, kind in ((unmanage, messages.UnmanageVolume), (batch["deletes"][0], messages.DeleteVolume)):
        assert serialization.unpack(sent, kind) == kind(request_id="r", volume_id="v", asked_at=now)


HELLO = messages.Hello(backend="h@b", nonce="n", availability_zone="nova", driver="memory")
LISTING = messages.Listing(
    backend="h@b",
    epoch=3,
    tick=9,
    volumes=[messages.ListedVolume(volume_id="v", pool="p", size_gb=2.5)],
    in_hand=["c1"],
)
OUTCOME = messages.Outcome(backend="h@b", epoch=3, claim_id="c", ok=False, end_tick=4, clean=True, message="no room")
RETYPE = messages.RetypeVolume(
    request_id="r", volume_id="v", volume_type="gold", migration_policy=messages.MigrationPolicy.ON_DEMAND
)
MANAGE = messages.ManageVolume(
    request_id="r", volume_id="v", pool="h@b#p", reference="lun-7", project_id="p", metadata={"a": "b"}
)
REFUSAL = Refusal(
    "500 GiB thin 'gold'",
    3,
    (FilterOutcome("CapacityFilter", 3),),
    NearestMiss(
        "h@b#p", "CapacityFilter", Rejection("no_capacity", "has headroom 3.00 GiB", {"headroom": 3.0, "x": None})
    ),
)


@pytest.mark.parametrize(
    ("method", "message", "answer"),
    [
        (contract.HELLO, HELLO, messages.Welcome(epoch=3)),
        (contract.LISTING, LISTING, messages.Receipt(accepted=True)),
        (
            contract.GET_POOLS,
            messages.PoolQuery(name="p", capabilities={"QoS_support": "True"}),
            [
                messages.PoolView(
                    name="h@b#p", capabilities={"free_capacity_gb": "unknown"}, capacity_factors=[{"a": 1.5}]
                )
            ],
        ),
    ],
)
def test_a_call_carries_the_message_and_its_answer(
    scheduler: Scheduler, client: SchedulerClient, method: Method[Any, Any], message: Any, answer: Any
) -> None:
    scheduler.answer = answer
    assert client.call(method, message) == answer
    seen, arrived = scheduler.seen.get_nowait()
    assert seen == method.name
    assert serialization.unpack(arrived, type(message)) == message


def test_pools_as_text(scheduler: Scheduler, client: SchedulerClient) -> None:
    scheduler.answer = []
    query = messages.PoolListQuery(volume_type="gold", capabilities={"QoS_support": "True"}, detail=True)
    assert client.pool_list(query) == []
    seen, arrived = scheduler.seen.get_nowait()
    assert (seen, serialization.unpack(arrived, messages.PoolListQuery)) == ("get_pool_list", query)


MORE: list[tuple[Method[Any, Any], Any, Any]] = [
    (
        contract.STAMPS,
        messages.StampQuery(backend="h@b", storage_ids=["array", "other"]),
        {"array": 3, "other": 2**40},
    ),
    (
        contract.CREATE_GROUP,
        messages.CreateGroup(request_id="r", volumes=[CREATE, CREATE]),
        messages.GroupAnswer(volumes=[messages.Answer(volume_id="v1", pool="h@b#p")] * 2),
    ),
    (
        contract.CREATE_GROUP,
        messages.CreateGroup(request_id="r", volumes=[CREATE]),
        messages.GroupAnswer(refusal=REFUSAL),
    ),
    (contract.RETYPE_VOLUME, RETYPE, messages.Answer(volume_id="v", pool="h@b#p")),
    (
        contract.MIGRATE_VOLUME,
        messages.MigrateVolume(request_id="r", volume_id="v", destination="h@c"),
        messages.Answer(volume_id="v", refusal=REFUSAL),
    ),
    (contract.MANAGE_VOLUME, MANAGE, None),
    (contract.UNMANAGE_VOLUME, messages.UnmanageVolume(request_id="r", volume_id="v"), None),
    (
        contract.SET_BACKEND_STATE,
        messages.SetBackendState(backend="h@b", state=messages.BackendState.DRAINING, reason="old"),
        None,
    ),
    (
        contract.EXPLAIN,
        dataclasses.replace(CREATE, source_volume_id="v0"),
        Explanation("2 GiB", "h@b#p", "", ()),
    ),
    (
        contract.WHAT_IF,
        messages.WhatIf(
            requests=[
                messages.SimulatedRequest(create=CREATE),
                messages.SimulatedRequest(extend=messages.ExtendVolume(request_id="r", volume_id="v", new_size_gb=3)),
                messages.SimulatedRequest(group=messages.CreateGroup(request_id="r", volumes=[CREATE])),
                messages.SimulatedRequest(migrate=messages.MigrateVolume(request_id="r", volume_id="v")),
                messages.SimulatedRequest(
                    retype=messages.RetypeVolume(request_id="r", volume_id="v", volume_type="gold")
                ),
            ],
            changes=Changes(
                default_ratio="auto",
                ratios={"h@b": 2.0},
                calculation=Calculation.STANDARD,
                lost=("h@c",),
                added=({"pool_name": "h@d#p"},),
            ),
            detail=False,
        ),
        [
            messages.SimulationResult(
                volumes=[Explanation("2 GiB", None, "no", (), ("A",), REFUSAL)],
                unchanged=[Explanation("2 GiB", "h@b#p", "", ())],
            )
        ],
    ),
    (
        FIT_NODES,
        FitQuery(
            volumes=[NodeVolume(name="a", driver="disk.example.com", storage_class="fast", size=2**40)],
            nodes={"n1": {"zone": "a"}, "n2": {}},
            holder="u1",
        ),
        FitAnswer(
            nodes={"n1": 0.25},
            refused={"n2": NodeRefusal(code="TooLarge", message="no", volumes=["a"], exact=True, pools=[NODE_POOL])},
        ),
    ),
]


@pytest.mark.parametrize(("method", "message", "answer"), MORE)
def test_other_calls_carry_the_message_and_its_answer(
    scheduler: Scheduler, client: SchedulerClient, method: Method[Any, Any], message: Any, answer: Any
) -> None:
    scheduler.answer = answer
    assert client.call(method, message) == answer
    seen, arrived = scheduler.seen.get_nowait()
    assert seen == method.name
    assert serialization.unpack(arrived, type(message)) == message


def test_each_request_of_a_batch_has_its_own_answer_or_error(scheduler: Scheduler, client: SchedulerClient) -> None:
    def answer(message: Any) -> Any:
        return _serve(message, decide)

    def decide(requests: list[request_batch.BatchedRequest]) -> list[object]:
        return [
            None
            if isinstance(request, messages.DeleteVolume)
            else errors.NotFound(f"no volume {request.volume_id}")
            if isinstance(request, messages.ExtendVolume)
            else messages.Answer(volume_id=request.volume_id, pool="h@b#p")
            for request in requests
        ]

    scheduler.answer = answer
    assert client.call(contract.CREATE_VOLUME, CREATE).pool == "h@b#p"
    assert client.call(contract.DELETE_VOLUME, messages.DeleteVolume(request_id="r", volume_id="v")) is None  # type: ignore[func-returns-value]
    with pytest.raises(errors.NotFound, match=r"^no volume v9$"):
        client.call(contract.EXTEND_VOLUME, messages.ExtendVolume(request_id="r", volume_id="v9", new_size_gb=3))
    assert [scheduler.seen.get_nowait()[0] for _ in range(3)] == ["request_batch"] * 3


def test_threads_that_request_all_pools_share_a_call_and_other_queries_do_not_wait(
    scheduler: Scheduler, client: SchedulerClient
) -> None:
    gate = threading.Event()
    answered = messages.PoolListText(text=packed_reports.packed(b'{"updated":\0}'), last_report="1")

    def answer(message: Any) -> Any:
        if message["name"] is None and not gate.wait(60):
            raise errors.NotFound("nobody has opened")
        return [answered]

    scheduler.answer = answer
    everything = messages.PoolListQuery(detail=True)
    batcher = client._all_pools[False]._batcher
    batcher.items.patience = 600.0  # whoever waited for the others longer than that would go alone
    with futures.ThreadPoolExecutor(6) as threads:
        first = threads.submit(client.pool_list, everything)
        scheduler.seen.get(timeout=30)
        others = [threads.submit(client.pool_list, everything) for _ in range(4)]
        deadline = time.monotonic() + 60
        while batcher.items.waiting < 4:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        one = client.pool_list(dataclasses.replace(everything, name="h@b#p"))
        assert not first.done()
        gate.set()
        assert [each.result(30) for each in (first, *others)] == [one] * 5 == [[b'{"updated":1}']] * 5
    assert scheduler.seen.qsize() == 2, "one call for four threads, and one for the other query"


def test_a_request_that_waits_for_the_compute_service_is_sent_alone(
    scheduler: Scheduler, client: SchedulerClient
) -> None:
    request = dataclasses.replace(CREATE, hints={"local_to_instance": "8f4d2c1a-5b3e-4c6f-9a7d-0e1f2a3b4c5d"})
    answer = messages.Answer(volume_id=request.volume_id, pool="h@b#p")
    scheduler.answer = lambda message: _serve(message, lambda requests: [answer for _ in requests])
    assert client.call(contract.CREATE_VOLUME, request).pool == "h@b#p"
    seen, arrived = scheduler.seen.get_nowait()
    assert seen == "request_batch"
    assert [serialization.unpack(each, messages.CreateVolume) for each in arrived["creates"]] == [request]


def test_many_threads_share_calls_and_each_gets_its_own_answer(scheduler: Scheduler, client: SchedulerClient) -> None:
    def decide(requests: list[request_batch.BatchedRequest]) -> list[object]:
        time.sleep(0.01)  # as a commit takes
        return [
            errors.Conflict(f"{request.volume_id} is odd")
            if int(request.volume_id) % 2
            else messages.Answer(volume_id=request.volume_id)
            for request in requests
        ]

    def ask(number: int) -> str:
        try:
            return client.call(contract.CREATE_VOLUME, dataclasses.replace(CREATE, volume_id=str(number))).volume_id
        except errors.Conflict as error:
            return error.message

    scheduler.answer = lambda message: _serve(message, decide)
    with futures.ThreadPoolExecutor(32) as pool:
        found = list(pool.map(ask, range(200)))
    assert found == [f"{number} is odd" if number % 2 else str(number) for number in range(200)]
    assert scheduler.seen.qsize() < 100


def test_answers_to_requests_of_several_kinds_find_the_way_back(scheduler: Scheduler, client: SchedulerClient) -> None:
    kinds_together = []

    def decide(requests: list[request_batch.BatchedRequest]) -> list[object]:
        kinds_together.append(len({type(request) for request in requests}))
        time.sleep(0.05)
        return [
            errors.NotFound(f"no volume {request.volume_id}")
            if isinstance(request, messages.DeleteVolume)
            else messages.Answer(volume_id=request.volume_id)
            for request in requests
        ]

    def ask(number: int) -> str:
        volume = str(number)
        match number % 3:
            case 0:
                return client.call(contract.CREATE_VOLUME, dataclasses.replace(CREATE, volume_id=volume)).volume_id
            case 1:
                extend = messages.ExtendVolume(request_id="r", volume_id=volume, new_size_gb=3)
                return client.call(contract.EXTEND_VOLUME, extend).volume_id
        with pytest.raises(errors.NotFound, match=f"^no volume {volume}$"):
            client.call(contract.DELETE_VOLUME, messages.DeleteVolume(request_id="r", volume_id=volume))
        return volume

    scheduler.answer = lambda message: _serve(message, decide)
    with futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(60))) == [str(number) for number in range(60)]
    assert max(kinds_together) == 3


@pytest.mark.parametrize("answered", [None, {}, [], [1, 2]])
def test_an_answer_to_other_requests_is_garbled(scheduler: Scheduler, client: SchedulerClient, answered: Any) -> None:
    scheduler.answer = lambda message: answered
    with pytest.raises(errors.Unavailable, match=r"^the scheduler's answer to 1 requests is garbled$"):
        client.call(contract.CREATE_VOLUME, CREATE)


def test_calls_to_a_killed_scheduler_do_not_delay_others(scheduler: Scheduler, client: SchedulerClient) -> None:
    taken, died = threading.Semaphore(2), threading.Event()

    def answer(message: Any) -> Any:
        if taken.acquire(blocking=False):
            died.wait(60)
        return _serve(message, lambda requests: [messages.Answer(volume_id=one.volume_id) for one in requests])

    def ask(number: int) -> str:
        return client.call(contract.CREATE_VOLUME, dataclasses.replace(CREATE, volume_id=str(number))).volume_id

    scheduler.answer = answer
    with futures.ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(ask, number) for number in range(50)]
        # At most 16 threads wait for what was lost.
        answered = list(itertools.islice(futures.as_completed(asked, timeout=30), 34))
        died.set()
        assert len(answered) == 34
        assert [each.result() for each in asked] == [str(number) for number in range(50)]


def test_a_request_that_cannot_be_packed_is_refused_before_it_joins_others(
    scheduler: Scheduler, client: SchedulerClient
) -> None:
    with pytest.raises(TypeError):
        client.call(contract.CREATE_VOLUME, dataclasses.replace(CREATE, hints={"x": object()}))
    assert scheduler.seen.empty()


def test_outcomes_are_sent_in_one_call(scheduler: Scheduler, client: SchedulerClient) -> None:
    scheduler.answer = [messages.Receipt(accepted=True), messages.Receipt(accepted=False)]
    assert client.call(contract.OUTCOMES, messages.Outcomes(outcomes=[OUTCOME, OUTCOME])) == scheduler.answer
    method, arrived = scheduler.seen.get_nowait()
    assert (method, serialization.unpack(arrived, messages.Outcomes).outcomes) == ("outcomes", [OUTCOME, OUTCOME])


def test_an_explanation_keeps_weights_that_are_not_numbers(scheduler: Scheduler, client: SchedulerClient) -> None:
    weights = (Weight("W", math.nan, 0.0, 1.0), Weight("V", math.inf, 1.0, -2.0))
    scheduler.answer = Explanation("2 GiB", "h@b#p", "", (PoolVerdict("h@b#p", None, None, weights, 0.5),))
    explanation = client.call(contract.EXPLAIN, CREATE)
    first, second = explanation.verdicts[0].weights
    assert math.isnan(first.raw)
    assert second == weights[1]


@pytest.mark.parametrize(
    "kind",
    # Rooms have leaves of their own, which do not travel; which of them are there depends on what was imported before.
    [kind for kind in errors.TonnageError.__subclasses__() if kind.__module__ == errors.__name__],
)
def test_an_error_arrives_with_its_class_and_message(
    scheduler: Scheduler, client: SchedulerClient, kind: type[errors.TonnageError]
) -> None:
    scheduler.answer = kind("volume v1 is busy")
    with pytest.raises(errors.TonnageError) as caught:
        client.call(contract.CREATE_VOLUME, CREATE)
    assert type(caught.value) is kind
    # What is not available there may be available here.
    whose = "tonnage-scheduler: " if kind is errors.Unavailable else ""
    assert str(caught.value) == caught.value.message == f"{whose}volume v1 is busy"


class LostRace(errors.Conflict):
    """A leaf of another room, which the caller does not know."""


def test_an_error_of_another_room_arrives_as_the_leaf_it_derives_from(
    scheduler: Scheduler, client: SchedulerClient
) -> None:
    scheduler.answer = LostRace("someone was faster")
    with pytest.raises(errors.Conflict, match=r"^someone was faster$"):
        client.call(contract.CREATE_VOLUME, CREATE)


@pytest.mark.parametrize("error", [ZeroDivisionError("secret figures"), errors.TonnageError("no leaf")])
def test_an_internal_error_is_logged_by_the_server_and_hidden_from_the_client(
    scheduler: Scheduler, client: SchedulerClient, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    scheduler.answer = error
    with pytest.raises(errors.Unavailable) as caught:
        client.call(contract.CREATE_VOLUME, CREATE)
    assert str(caught.value) == ("request_batch failed in tonnage-scheduler with an internal error; its log says more")
    assert "Traceback" in caplog.text


TELEPORT = Method("teleport", messages.CreateVolume, messages.Answer, "a method that no scheduler has")


def test_a_method_that_the_server_does_not_know_is_named(scheduler: Scheduler, bus: transport.Transport) -> None:
    with pytest.raises(errors.Unavailable, match=r"^the scheduler could not take teleport: NoSuchMethod$"):
        transport.Peer(bus, transport.TOPIC_SCHEDULER, "scheduler").call(TELEPORT, CREATE)


def test_a_message_of_the_wrong_shape_is_the_callers_mistake(scheduler: Scheduler, bus: transport.Transport) -> None:
    other = Method(contract.HELLO.name, messages.Welcome, messages.Welcome, "a hello of another form")
    scheduler.answer = lambda message: serialization.unpack(message, messages.Hello)
    with pytest.raises(errors.InvalidInput, match=r"^malformed Hello: .*`backend`"):
        transport.Peer(bus, transport.TOPIC_SCHEDULER, "scheduler").call(other, messages.Welcome(epoch=1))


def test_a_report_reaches_every_scheduler(
    bus: transport.Transport, scheduler: Scheduler, client: SchedulerClient
) -> None:
    other = Scheduler()
    report = messages.BackendReport(
        backend="h@b",
        epoch=1,
        seq=2,
        covers=3,
        pools=[{"pool_name": "p", "free_capacity_gb": "unknown"}],
        in_hand=["c"],
    )
    with serving(bus, other, "other"):
        client.cast(contract.REPORT, PackedReport.of(report))
        for each in (scheduler, other):
            method, arrived = each.seen.get(timeout=30)
            assert method == "report"
            assert serialization.unpack(arrived, PackedReport).unpack() == report


def test_a_request_for_listings_has_no_answer(scheduler: Scheduler, client: SchedulerClient) -> None:
    client.cast(contract.LIST_BACKENDS, messages.ListBackends(backends=["h@b", "h@c"]))
    seen, arrived = scheduler.seen.get(timeout=60)
    assert (seen, arrived) == ("list_now", {"backends": ["h@b", "h@c"]})
