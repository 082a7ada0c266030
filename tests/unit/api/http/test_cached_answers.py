# SPDX-License-Identifier: Apache-2.0
"""Answers with an entity tag."""

import datetime
from typing import Any

import falcon
import msgspec
import pytest
from falcon import testing

from tonnage.api.http import cached_answers


class Body(msgspec.Struct):
    """A body."""

    free_gb: float


def answer(body: Body, tag: str | None = None) -> falcon.Response:
    headers = {} if tag is None else {"If-None-Match": tag}
    request: Any = testing.create_req(headers=headers)
    response = falcon.Response()
    cached_answers.send(request, response, body)
    return response


def test_a_body_comes_with_its_tag_and_must_be_asked_for_again() -> None:
    response = answer(Body(1.5))
    assert response.data == b'{"free_gb":1.5}'
    assert response.content_type == "application/json"
    assert response.get_header("Cache-Control") == "private, no-cache"
    assert response.status == "200 OK"


@pytest.mark.parametrize("more", ["", ', "other"'])
def test_a_client_that_has_the_body_gets_none(more: str) -> None:
    tag = answer(Body(1.5)).get_header("ETag")
    assert tag is not None
    response = answer(Body(1.5), tag + more)
    assert (response.status, response.data) == ("304 Not Modified", None)
    assert response.get_header("ETag") == tag


def test_a_client_that_has_an_older_body_gets_the_new_one() -> None:
    tag = answer(Body(1.5)).get_header("ETag")
    response = answer(Body(2.5), tag)
    assert (response.status, response.data) == ("200 OK", b'{"free_gb":2.5}')
    assert response.get_header("ETag") != tag


def test_times_are_text_in_utc_without_fractions() -> None:
    moment = datetime.datetime(2026, 11, 21, 12, 0, 1, 999999, tzinfo=datetime.UTC)
    assert cached_answers.text_of_time(moment) == "2026-11-21T12:00:01Z"
    assert cached_answers.text_of_time(None) is None
