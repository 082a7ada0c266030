# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between Tonnage and Placement. What goes right is tested with the real one."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1 import exceptions

from tonnage.placement.client import Away, Placement, Refused


def answering(status: int, body: object) -> Placement:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    adapter: Any = SimpleNamespace(request=lambda *args, **kwargs: SimpleNamespace(status_code=status, content=content))
    return Placement(adapter, 5)


PROBLEM = {"errors": [{"status": 0, "detail": "Something\n is wrong.", "code": "placement.undefined_code"}]}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, r"does not let the account of the section \[placement\] do this"),
        (403, r"does not let the account"),
        (406, r"is too old: it takes microversion 1\.38"),
        (500, r"OpenStack Placement fails: GET /usages answered 500: Something is wrong\."),
        (503, r"answered 503"),
    ],
)
def test_one_that_cannot_do_it_is_away(status: int, said: str) -> None:
    with pytest.raises(Away, match=said):
        answering(status, PROBLEM).used("p")


def test_a_refusal_says_why() -> None:
    with pytest.raises(Refused, match=r"refuses: POST /resource_providers answered 409: Something is wrong\.") as found:
        answering(409, PROBLEM).create_provider("n", "id")
    assert found.value.status == 409


@pytest.mark.parametrize("body", [b"<html>It works!</html>", {"usages": 3}, b"\xff"])
def test_what_answers_otherwise_is_not_placement(body: object) -> None:
    with pytest.raises(Away, match="what answers is not OpenStack Placement"):
        answering(200, body).used("p")
    with pytest.raises(Refused, match="answered 404"):
        answering(404, body).used("p")


def test_keystone_may_be_what_does_not_answer() -> None:
    def request(*args: Any, **kwargs: Any) -> None:
        raise exceptions.EndpointNotFound("placement service for RegionOne\nregion not found")

    adapter: Any = SimpleNamespace(request=request)
    with pytest.raises(Away, match="cannot be asked: placement service for RegionOne region not found"):
        Placement(adapter, 5).providers()


def test_who_has_nothing_uses_nothing() -> None:
    assert answering(200, {"usages": {}}).used("p") == 0
