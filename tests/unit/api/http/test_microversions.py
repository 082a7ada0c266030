# SPDX-License-Identifier: Apache-2.0
"""The microversion of a request."""

from typing import Any

import falcon
import pytest
from falcon import testing

from tonnage.api.http import microversions
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors


def process(version: str | None, path: str = "/v3/demo/volumes") -> tuple[Request, falcon.Response]:
    headers = {} if version is None else {"OpenStack-API-Version": version}
    request = Request(testing.create_environ(path=path, headers=headers))
    response = falcon.Response()
    microversions.MicroversionMiddleware().process_request(request, response)
    return request, response


@pytest.mark.parametrize(
    ("version", "served"),
    [(None, "3.0"), ("volume 3.72", "3.72"), ("volume latest", "3.72"), ("compute 2.90", "3.0")],
)
def test_a_request_has_the_version_that_it_names_or_the_first(version: str | None, served: str) -> None:
    request, response = process(version)
    assert str(request.context.version) == served
    assert response.get_header("OpenStack-API-Version") == f"volume {served}"
    assert response.get_header("Vary") == "OpenStack-API-Version"
    assert not response.complete


@pytest.mark.parametrize("version", ["volume 3.73", "volume 2.1", "volume 4.0"])
def test_a_version_that_is_not_there_is_not_acceptable(version: str) -> None:
    _, response = process(version)
    assert (response.status, response.complete) == ("406 Not Acceptable", True)
    assert b"Minimum is 3.0 and maximum is 3.72" in (response.data or b"")


def test_a_malformed_version_is_a_bad_request() -> None:
    with pytest.raises(falcon.HTTPBadRequest) as caught:
        process("volume three")
    assert caught.value.description == "API version 'three' is malformed: expected MAJOR.MINOR or latest."


def test_paths_of_no_version_have_no_header() -> None:
    _, response = process("volume 9.9", path="/healthcheck")
    assert (response.get_header("Vary"), response.complete) == (None, False)


def test_a_newer_resource_is_not_there_for_an_older_version() -> None:
    older: Any = process("volume 3.12")[0]
    microversions.require(older, 12)
    with pytest.raises(errors.NotFound, match="The resource could not be found"):
        microversions.require(older, 13)
