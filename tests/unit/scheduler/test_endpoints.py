# SPDX-License-Identifier: Apache-2.0
"""What the endpoint lets through to the scheduler."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tonnage.capacity import errors
from tonnage.rpc import contract, messages, serialization
from tonnage.rpc.contract import Method
from tonnage.rpc.handlers import Endpoint, RpcHandler
from tonnage.scheduler import endpoints
from tonnage.scheduler.extension_parts import ExtensionParts

CREATE = messages.CreateVolume(request_id="r", volume_id="v", size_gb=1, project_id="p")
EXTEND = messages.ExtendVolume(request_id="r", volume_id="v", new_size_gb=2)
DELETE = messages.DeleteVolume(request_id="r", volume_id="v")

#: Each verb with a request for it; the members of a group go by the id of the group.
REQUESTS: dict[str, Any] = {
    "create_group": messages.CreateGroup(request_id="r", volumes=[replace(CREATE, request_id="")]),
    "migrate_volume": messages.MigrateVolume(request_id="r", volume_id="v"),
    "retype_volume": messages.RetypeVolume(request_id="r", volume_id="v", volume_type="t"),
    "manage_volume": messages.ManageVolume(request_id="r", volume_id="v", pool="h@b#p", reference="f", project_id="p"),
    "unmanage_volume": messages.UnmanageVolume(request_id="r", volume_id="v"),
}


class Core:
    """Stands in for the scheduler: it only notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.extensions = ExtensionParts()

    def place(self, work: Any) -> str:
        self.asked.append(work)
        return "done"

    def __getattr__(self, name: str) -> Any:
        return self.place

    def handle_batch(self, requests: Sequence[Any]) -> list[object]:
        self.asked += requests
        return [messages.Answer(volume_id=request.volume_id) for request in requests]


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def endpoint(core: Core) -> Endpoint:
    return endpoints.build(core)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", REQUESTS)
@pytest.mark.parametrize("bad", ["", "r" * 65, "r\0"])
def test_each_request_needs_an_id_that_can_be_kept(endpoint: Endpoint, core: Core, verb: str, bad: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^request_id is .* it takes 1 to 64 characters"):
        getattr(endpoint, verb)({}, serialization.pack(replace(REQUESTS[verb], request_id=bad)))
    assert core.asked == []
    getattr(endpoint, verb)({}, serialization.pack(REQUESTS[verb]))
    assert len(core.asked) == 1


def test_of_requests_that_came_together_only_those_without_an_id_are_refused(endpoint: Endpoint, core: Core) -> None:
    message = messages.RequestBatch(
        creates=[CREATE, replace(CREATE, request_id="")],
        extends=[replace(EXTEND, request_id="")],
        deletes=[DELETE, replace(DELETE, request_id="")],
    )
    answers = endpoint.request_batch({}, serialization.pack(message))
    assert [answer.get("error") for answer in answers] == [None, "InvalidInput", "InvalidInput", None, "InvalidInput"]
    assert core.asked == [CREATE, DELETE]


def test_an_extension_serves_a_method_of_its_own(core: Core) -> None:
    question = Method("question", messages.PoolQuery, str, "a question of an extension")
    core.extensions.rpc_handlers.append(RpcHandler(question, lambda query: f"an answer about {query.name}"))
    endpoint: Any = endpoints.build(core)  # type: ignore[arg-type]
    assert endpoint.question({}, message={"name": "p"}) == "an answer about p"


def test_an_extension_cannot_serve_a_method_of_the_core(core: Core) -> None:
    core.extensions.rpc_handlers.append(RpcHandler(contract.EXPLAIN, core.place))
    with pytest.raises(errors.ConfigurationError, match=r"with several, of Tonnage or of enabled extensions: explain$"):
        endpoints.build(core)  # type: ignore[arg-type]
