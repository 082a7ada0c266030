# SPDX-License-Identifier: Apache-2.0
"""The scheduler client against a real server on the bus."""

import contextlib
import math
import queue
from collections.abc import Iterator
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.capacity.decision import FilterOutcome
from tonnage.capacity.decision import NearestMiss
from tonnage.capacity.decision import Refusal
from tonnage.capacity.decision import Rejection
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.explanation import PoolVerdict
from tonnage.capacity.explanation import Weight
from tonnage.capacity.request import Provisioning
from tonnage.rpc import messages
from tonnage.rpc import transport
from tonnage.rpc import wire
from tonnage.rpc.scheduler_client import SchedulerClient

METHODS = {
    "hello",
    "listing",
    "outcome",
    "report",
    "create_volume",
    "extend_volume",
    "delete_volume",
    "get_pools",
    "explain",
}
CREATE = messages.CreateVolume(
    request_id="req-1", volume_id="v1", size_gb=500, project_id="p", volume_type="gold", metadata={"a": "b"}
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


@contextlib.contextmanager
def serving(bus: transport.Transport, endpoint: object, name: str = "one") -> Iterator[None]:
    server = transport.server(bus, transport.TOPIC_SCHEDULER, name, endpoint)
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


@pytest.fixture
def client(bus: transport.Transport) -> SchedulerClient:
    return SchedulerClient(bus)


HELLO = messages.Hello(backend="h@b", nonce="n", availability_zone="nova", driver="memory")
LISTING = messages.Listing(
    backend="h@b",
    epoch=3,
    tick=9,
    volumes=[messages.ListedVolume(volume_id="v", pool="p", size_gb=2.5)],
    in_hand=["c1"],
)
OUTCOME = messages.Outcome(backend="h@b", epoch=3, claim_id="c", ok=False, end_tick=4, clean=True, message="no room")
REFUSAL = Refusal(
    "500 GiB thin 'gold'",
    3,
    (FilterOutcome("CapacityFilter", 3),),
    NearestMiss(
        "h@b#p", "CapacityFilter", Rejection("no_capacity", "has headroom 3.00 GiB", {"headroom": 3.0, "x": None})
    ),
)


@pytest.mark.parametrize(
    ("method", "on_the_wire", "message", "answer"),
    [
        ("hello", "hello", HELLO, messages.Welcome(epoch=3)),
        ("listing", "listing", LISTING, messages.Receipt(accepted=True)),
        ("outcome", "outcome", OUTCOME, messages.Receipt(accepted=False)),
        (
            "create",
            "create_volume",
            CREATE,
            messages.Answer(volume_id="v1", pool="h@b#p", provisioning=Provisioning.THIN),
        ),
        ("create", "create_volume", CREATE, messages.Answer(volume_id="v1", refusal=REFUSAL)),
        (
            "extend",
            "extend_volume",
            messages.ExtendVolume(request_id="r", volume_id="v", new_size_gb=3),
            messages.Answer(volume_id="v", pool="h@b#p"),
        ),
        ("delete", "delete_volume", messages.DeleteVolume(request_id="r", volume_id="v"), None),
        (
            "get_pools",
            "get_pools",
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
    scheduler: Scheduler, client: SchedulerClient, method: str, on_the_wire: str, message: Any, answer: Any
) -> None:
    scheduler.answer = answer
    assert getattr(client, method)(message) == answer
    seen, arrived = scheduler.seen.get_nowait()
    assert seen == on_the_wire
    assert wire.unpack(arrived, type(message)) == message


def test_an_explanation_keeps_weights_that_are_not_numbers(scheduler: Scheduler, client: SchedulerClient) -> None:
    weights = (Weight("W", math.nan, 0.0, 1.0), Weight("V", math.inf, 1.0, -2.0))
    scheduler.answer = Explanation("2 GiB", "h@b#p", "", (PoolVerdict("h@b#p", None, None, weights, 0.5),))
    explanation = client.explain(CREATE)
    first, second = explanation.verdicts[0].weights
    assert math.isnan(first.raw)
    assert second == weights[1]


@pytest.mark.parametrize(
    "kind",
    # Rooms have leaves of their own, which do not travel; which of them are there depends on what was imported before.
    [kind for kind in errors.TonnageError.__subclasses__() if kind.__module__ == errors.__name__],
)
def test_an_error_arrives_as_what_it_was_with_its_message_alone(
    scheduler: Scheduler, client: SchedulerClient, kind: type[errors.TonnageError]
) -> None:
    scheduler.answer = kind("volume v1 is busy")
    with pytest.raises(errors.TonnageError) as caught:
        client.create(CREATE)
    assert type(caught.value) is kind
    assert str(caught.value) == caught.value.message == "volume v1 is busy"


class LostRace(errors.Conflict):
    """A leaf of another room, which the caller does not know."""


def test_an_error_of_another_room_arrives_as_the_leaf_it_derives_from(
    scheduler: Scheduler, client: SchedulerClient
) -> None:
    scheduler.answer = LostRace("someone was faster")
    with pytest.raises(errors.Conflict, match=r"^someone was faster$"):
        client.create(CREATE)


@pytest.mark.parametrize("error", [ZeroDivisionError("secret figures"), errors.TonnageError("no leaf")])
def test_an_error_that_nobody_meant_is_logged_there_and_hidden_here(
    scheduler: Scheduler, client: SchedulerClient, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    scheduler.answer = error
    with pytest.raises(errors.Unavailable) as caught:
        client.create(CREATE)
    assert str(caught.value) == ("create_volume failed in tonnage-scheduler with an internal error; its log says more")
    assert "Traceback" in caplog.text


def test_a_method_that_the_server_does_not_know_is_named(scheduler: Scheduler, client: SchedulerClient) -> None:
    with pytest.raises(errors.Unavailable, match=r"^the scheduler could not take teleport: NoSuchMethod$"):
        client._peer.call("teleport", CREATE)


def test_a_message_of_the_wrong_shape_is_the_callers_mistake(scheduler: Scheduler, client: SchedulerClient) -> None:
    scheduler.answer = lambda message: wire.unpack(message, messages.Hello)
    with pytest.raises(errors.InvalidInput, match=r"^malformed Hello: .*`backend`"):
        client._peer.call("hello", messages.Welcome(epoch=1))


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
        client.report(report)
        for each in (scheduler, other):
            method, arrived = each.seen.get(timeout=5)
            assert method == "report"
            assert wire.unpack(arrived, messages.BackendReport) == report
