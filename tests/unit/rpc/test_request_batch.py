# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side of requests that travel together."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.rpc import messages, request_batch, serialization

CREATE = messages.CreateVolume(request_id="r1", volume_id="v1", size_gb=1, project_id="p")
EXTEND = messages.ExtendVolume(request_id="r2", volume_id="v2", new_size_gb=3)
DELETE = messages.DeleteVolume(request_id="r3", volume_id="v3")


def serve(
    message: Any, handle: Callable[[list[request_batch.BatchedRequest]], Sequence[object]]
) -> list[dict[str, Any]]:
    """Serve a message as it arrives."""
    return request_batch.serve(serialization.unpack(message, messages.RequestBatch), handle)


def test_each_is_answered_for_itself_in_the_order_creates_extends_deletes() -> None:
    message = serialization.pack(messages.RequestBatch(creates=[CREATE], extends=[EXTEND], deletes=[DELETE]))
    seen: list[request_batch.BatchedRequest] = []

    def handle(requests: list[request_batch.BatchedRequest]) -> Sequence[object]:
        seen.extend(requests)
        return [messages.Answer(volume_id="v1", pool="h@b#p"), errors.Conflict("v2 is busy"), None]

    assert serve(message, handle) == [
        {"result": serialization.pack(messages.Answer(volume_id="v1", pool="h@b#p"))},
        {"error": "Conflict", "message": "v2 is busy"},
        {"result": None},
    ]
    assert seen == [CREATE, EXTEND, DELETE]


def test_a_malformed_one_spoils_no_other() -> None:
    good = serialization.pack(CREATE)
    message = {"creates": [good | {"size_gb": "much"}, good], "deletes": ["?"]}
    answered = serve(message, lambda requests: [messages.Answer(volume_id=one.volume_id) for one in requests])
    assert [answer.get("error") for answer in answered] == ["InvalidInput", None, "InvalidInput"]
    assert "size_gb" in answered[0]["message"]
    assert answered[1]["result"]["volume_id"] == "v1"


def test_an_internal_error_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    [answer] = serve({"creates": [serialization.pack(CREATE)]}, lambda requests: [ZeroDivisionError("secret")])
    assert answer == {
        "error": "Unavailable",
        "message": "request_batch failed in tonnage-scheduler with an internal error; its log says more",
    }
    assert "ZeroDivisionError: secret" in caplog.text


@pytest.mark.parametrize("message", [None, [], {"creates": 7}, {"deletes": {}}])
def test_what_is_no_list_of_requests_is_refused_as_a_whole(message: Any) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^malformed RequestBatch: "):
        serve(message, lambda requests: [])
