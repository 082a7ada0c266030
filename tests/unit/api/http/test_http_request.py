# SPDX-License-Identifier: Apache-2.0
"""The microversion and the identity of a request."""

import pytest
from falcon import testing
from microversion_parse import Version

from tonnage.api.http.http_request import Request


def request() -> Request:
    return Request(testing.create_environ("/v3/volumes"))


def test_a_request_without_a_microversion_has_the_first_and_no_user() -> None:
    received = request()
    assert received.at_least(0)
    assert not received.at_least(1)
    assert (received.context.identity.user_id, received.context.identity.roles) == (None, [])


@pytest.mark.parametrize(("minor", "reached"), [(8, True), (9, True), (10, False), (100, False)])
def test_minor_numbers_are_compared_as_numbers(minor: int, reached: bool) -> None:
    received = request()
    received.context.version = Version(3, 9)
    assert received.at_least(minor) is reached


def test_two_requests_share_no_state() -> None:
    first, second = request(), request()
    first.context.version = Version(3, 72)
    first.context.identity.roles.append("admin")
    assert not second.at_least(1)
    assert second.context.identity.roles == []
