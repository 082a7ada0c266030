# SPDX-License-Identifier: Apache-2.0
"""Messages as builtins, and answers that carry a result or an error."""

import logging
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.rpc import messages, serialization

ANSWER = messages.Answer(volume_id="v", pool="h@b#p", provisioning=Provisioning.THIN)


class VolumeInUse(errors.Conflict):
    """An error of another room, which derives from a leaf."""


class Endpoint:
    """An endpoint whose method does what ``error`` says."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[object] = []

    def place(self, context: object, message: object) -> messages.Answer:
        self.calls.append(message)
        if self.error is not None:
            raise self.error
        return ANSWER


class NotReady:
    """A server that can begin no call."""

    def require_ready(self) -> None:
        raise errors.Declined("the scheduler stops")


def test_a_message_consists_of_builtins_on_the_bus() -> None:
    assert serialization.pack(ANSWER) == {
        "volume_id": "v",
        "pool": "h@b#p",
        "provisioning": "thin",
        "refusal": None,
    }


def test_a_message_is_read_back_from_the_builtins() -> None:
    command = messages.Commands(commands=[{"claim_id": "c"}, 7])
    for message in (ANSWER, command, messages.GroupAnswer(volumes=[ANSWER, ANSWER])):
        assert serialization.unpack(serialization.pack(message), type(message)) == message


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"volume_id": 7}, r"^malformed Answer: Expected `str`, got `int` - at `\$\.volume_id`$"),
        ({}, r"^malformed Answer: Object missing required field `volume_id`$"),
        ("v", r"^malformed Answer: Expected `object`, got `str`$"),
    ],
)
def test_a_malformed_message_is_refused_with_the_field_and_the_type(data: object, text: str) -> None:
    with pytest.raises(errors.InvalidInput, match=text):
        serialization.unpack(data, messages.Answer)


def test_a_result_reaches_the_caller() -> None:
    assert serialization.result(serialization.good(ANSWER), messages.Answer) == ANSWER
    assert serialization.result(serialization.good(None), type(None)) is None
    assert serialization.result(serialization.good([ANSWER]), list[messages.Answer]) == [ANSWER]


@pytest.mark.parametrize(
    ("error", "error_class", "text"),
    [
        (errors.NotFound("volume v"), errors.NotFound, "volume v"),
        (VolumeInUse("volume v is busy"), errors.Conflict, "volume v is busy"),
        (errors.Declined("stopping"), errors.Declined, "stopping"),
        (errors.DatabaseUnreachable("no database"), errors.DatabaseUnreachable, "no database"),
        (errors.LedgerMoved("moved"), errors.DatabaseUnreachable, "moved"),
        (errors.LedgerRefusal("full"), errors.LedgerRefusal, "full"),
        (errors.OutcomeUnknown("it hangs"), errors.DriverError, "it hangs"),
        (errors.Unavailable("away"), errors.Unavailable, "server: away"),
        (KeyError("secret"), errors.Unavailable, "place failed in server with an internal error; its log says more"),
    ],
)
def test_an_error_reaches_the_caller_with_the_class_of_its_leaf(
    error: Exception, error_class: type[errors.TonnageError], text: str
) -> None:
    answer = serialization.bad(error, "place", "server")
    with pytest.raises(errors.TonnageError) as caught:
        serialization.result(answer, messages.Answer)
    assert (type(caught.value), caught.value.message) == (error_class, text)


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (errors.Declined("stopping"), logging.DEBUG),
        (errors.Busy("many agents"), logging.DEBUG),
        (errors.DatabaseUnreachable("no database"), logging.DEBUG),
        (errors.WrongStorage("no mark"), logging.DEBUG),
        (errors.Conflict("busy"), logging.INFO),
        (KeyError("secret"), logging.ERROR),
    ],
)
def test_only_an_internal_error_is_logged_as_one(
    caplog: pytest.LogCaptureFixture, error: Exception, level: int
) -> None:
    caplog.set_level(logging.DEBUG)
    serialization.bad(error, "place", "server")
    assert [record.levelno for record in caplog.records] == [level]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "some",
        [],
        {},
        {"error": "NotFound"},
        {"error": 7, "message": "text"},
        {"result": {"volume_id": 7}},
    ],
)
def test_a_malformed_answer_is_no_fault_of_the_request(answer: Any) -> None:
    with pytest.raises(errors.Unavailable, match=r"^the answer cannot be read: "):
        serialization.result(answer, messages.Answer)


def test_an_error_class_of_a_later_version_arrives_as_unavailable() -> None:
    with pytest.raises(errors.Unavailable, match=r"^too hot$"):
        serialization.result({"error": "Overheated", "message": "too hot"}, messages.Answer)


def test_an_endpoint_always_answers() -> None:
    assert serialization.Guarded(Endpoint(), "server", "1.0").place({}, message=1) == {
        "result": serialization.pack(ANSWER)
    }
    failing = serialization.Guarded(Endpoint(errors.NotFound("volume v")), "server", "1.0")
    assert failing.place({}, message=1) == {"error": "NotFound", "message": "volume v"}


def test_a_server_that_is_not_ready_calls_no_method() -> None:
    endpoint = Endpoint()
    guarded = serialization.Guarded(endpoint, "server", "1.0", NotReady())
    assert guarded.place({}, message=1) == {"error": "Declined", "message": "the scheduler stops"}
    assert endpoint.calls == []


def test_a_method_that_the_endpoint_lacks_is_missing() -> None:
    """So oslo.messaging tells the caller that no endpoint has it."""
    assert not hasattr(serialization.Guarded(Endpoint(), "server", "1.0"), "remove")


@pytest.mark.parametrize("seconds", [7, 0.5])
def test_a_busy_scheduler_says_when_to_come_back(seconds: float) -> None:
    answer = serialization.bad(errors.Busy("many agents", seconds), "hello", "scheduler")
    assert answer == {"error": "Busy", "message": "many agents", "seconds": seconds}
    with pytest.raises(errors.Busy, match=r"^many agents$") as caught:
        serialization.result(answer, messages.Welcome)
    assert caught.value.seconds == seconds


def test_a_busy_scheduler_that_says_no_time_is_asked_again_after_some_seconds() -> None:
    with pytest.raises(errors.Busy) as caught:
        serialization.result({"error": "Busy", "message": "many agents"}, messages.Welcome)
    assert caught.value.seconds == 5.0
