# SPDX-License-Identifier: Apache-2.0
"""Query strings of lists."""

from types import SimpleNamespace
from typing import Any

import pytest
from falcon import testing
from msgspec import UNSET

from tonnage.api.http import list_query
from tonnage.api.http.list_query import Paginator, Query
from tonnage.capacity import errors
from tonnage.ledger.db.paging import Order, Page

PAGINATOR = Paginator(max_limit=10)


def request(query: str, path: str = "/v3/volumes") -> Any:
    return testing.create_req(query_string=query, path=path)


def page(**parameters: str) -> Page:
    return PAGINATOR.page(parameters)


def test_the_last_value_of_a_repeated_parameter_counts() -> None:
    assert list_query.read_parameters(request("name=a&name=b&limit=1")) == {"name": "b", "limit": "1"}


def test_text_with_nul_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="'name' cannot contain the character NUL"):
        list_query.read_parameters(request("name=a%00"))


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("color=red", "Invalid filters color are found in query options; known are name, status"),
        ("name=x", "query parameter status is missing"),
        ("status=up&deep=perhaps", "deep is 'perhaps': expected true or false"),
        ("status=up&size=medium", "size is 'medium': expected small, large"),
    ],
)
def test_parameters_that_a_list_does_not_have_are_refused(query: str, problem: str) -> None:
    allowed = Query(
        filters=("name", "status"), required=("status",), flags=("deep",), words={"size": ("small", "large")}
    )
    with pytest.raises(errors.InvalidInput, match=problem):
        allowed.read(request(query))
    parameters = allowed.read(request("status=up&deep=True&size=small&limit=5"))
    assert allowed.select_filters(parameters) == {"status": "up"}


@pytest.mark.parametrize("name", ["name~", "host", "binary"])
def test_a_filter_has_at_most_the_length_of_the_name_of_a_pool(name: str) -> None:
    allowed = Query(filters=("name~", "host", "binary", "metadata"), required=("host",))
    with pytest.raises(errors.InvalidInput, match=f"{name} has 60000 characters: at most 511 are allowed"):
        allowed.read(request(f"host=h&{name}={'x' * 60000}"))
    allowed.read(request(f"host=h&{name}={'x' * 511}&metadata={'x' * 600}"))
    assert allowed.schemas()["host"] == {"type": "string", "maxLength": 511, "minLength": 1}
    assert allowed.schemas()["metadata"] == {"type": "string"}


def test_other_parameters_can_be_ignored() -> None:
    assert list_query.NO_PARAMETERS.read(request("anything=1")) == {"anything": "1"}


@pytest.mark.parametrize(("limit", "rows"), [(None, 10), ("3", 3), ("0", 0), ("11", 10)])
def test_a_page_has_at_most_the_configured_number_of_rows(limit: str | None, rows: int) -> None:
    assert page(**({} if limit is None else {"limit": limit})).limit == rows


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": "-1"},
        {"limit": "1.0"},
        {"limit": "1" * 19},
        {"limit": "٣"},
        {"offset": "1"},
        {"sort": "name:up"},
        {"sort_dir": "up"},
        {"sort": "name", "sort_key": "id"},
    ],
)
def test_a_page_that_cannot_be_read_is_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInput):
        page(**parameters)


def test_rows_are_sorted_by_keys_that_descend_by_default() -> None:
    assert page(sort="name:asc, id").order == (Order("name", False), Order("id", True))
    assert page(sort_key="name").order == (Order("name", True),)
    assert page(sort_dir="asc").order == (Order("created_at", False),)
    assert page().order == Page(limit=0).order


def test_a_full_page_links_to_the_next_one() -> None:
    sent = request("limit=2&name=a%26b")
    rows = [SimpleNamespace(id="1"), SimpleNamespace(id="2")]
    [link] = PAGINATOR.links(sent, page(limit="2"), rows) or []
    assert (link.rel, link.href.rpartition("/v3/")[2]) == ("next", "volumes?limit=2&name=a%26b&marker=2")
    assert PAGINATOR.links(sent, page(limit="2"), rows[:1]) is UNSET
    assert PAGINATOR.links(sent, page(limit="0"), []) is UNSET
