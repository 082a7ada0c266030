# SPDX-License-Identifier: Apache-2.0
"""The methods of a server, made from the contract and its handlers."""

from types import NoneType
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.rpc import messages, serialization
from tonnage.rpc.contract import Delivery, Method
from tonnage.rpc.handlers import Endpoint, RpcHandler

DELETE = Method("delete", messages.DeleteVolume, str, "delete a volume", keyed=True)
QUERY = Method("query", messages.PoolQuery, str, "a question without a key")
STAMPS = Method("stamps", messages.SharedStorages, NoneType, "take stamps", Delivery.CAST)
REPORT = Method("report_now", NoneType, NoneType, "report soon", Delivery.CAST)
METHODS: tuple[Method[Any, Any], ...] = (DELETE, QUERY, STAMPS, REPORT)


@pytest.fixture
def arrived() -> list[object]:
    """The messages that have reached a handler."""
    return []


@pytest.fixture
def endpoint(arrived: list[object]) -> Any:
    def handle(message: object) -> Any:
        arrived.append(message)
        return "done"

    return Endpoint("Backend h@b", METHODS, [RpcHandler(method, handle) for method in METHODS])


def test_a_handler_gets_the_decoded_message_and_gives_the_answer(endpoint: Any, arrived: list[object]) -> None:
    request = messages.DeleteVolume(request_id="r", volume_id="v")
    assert endpoint.delete({}, message=serialization.pack(request)) == "done"
    assert arrived == [request]


def test_a_method_without_a_message_is_called_without_one(endpoint: Any, arrived: list[object]) -> None:
    endpoint.report_now({})
    assert arrived == [None]


@pytest.mark.parametrize("request_id", ["", "r" * 65, "r\0"])
def test_a_keyed_request_needs_an_id_that_can_be_kept(endpoint: Any, arrived: list[object], request_id: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^request_id is .* it takes 1 to 64 characters"):
        endpoint.delete({}, message={"request_id": request_id, "volume_id": "v"})
    assert arrived == []


def test_a_malformed_call_is_the_callers_mistake(endpoint: Any, arrived: list[object]) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^malformed PoolQuery: "):
        endpoint.query({}, message={"name": 7})
    assert arrived == []


def test_a_malformed_cast_is_ignored_with_a_warning(
    endpoint: Any, arrived: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.stamps({}, message={"storage_ids": 7})
    assert arrived == []
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.message.startswith("Backend h@b ignores stamps: malformed SharedStorages: ")


def test_each_method_needs_one_handler() -> None:
    handlers = [RpcHandler(DELETE, str), RpcHandler(STAMPS, print), RpcHandler(STAMPS, print)]
    with pytest.raises(
        errors.ConfigurationError,
        match=r"^the RPC methods of scheduler need one handler each; without one: query, report_now; with several, of "
        r"Tonnage or of enabled extensions: stamps$",
    ):
        Endpoint("scheduler", METHODS, handlers)


def test_further_methods_may_have_handlers(endpoint: Any) -> None:
    further: Any = Endpoint("scheduler", [], [RpcHandler(QUERY, lambda query: query.name or "")])
    assert further.query({}, message={"name": "p"}) == "p"
