# SPDX-License-Identifier: Apache-2.0
"""Arbitrary input for tests of the API, and the check of the responses to it."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

text = st.text(max_size=300)
words = st.sampled_from(["1", "0", "-1", "true", "null"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text | words
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3))


def bodies(outer: str, *keys: str) -> st.SearchStrategy[Any]:
    """Return bodies that are nearly valid, and bodies that are not."""
    inner = st.dictionaries(st.sampled_from(keys) | text, values, max_size=4)
    return st.dictionaries(st.just(outer) | text, inner | values, max_size=2) | values


often = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def check(answer: Any) -> None:
    # 501: a feature of Cinder that Tonnage does not have.
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    if answer.text:
        assert isinstance(answer.json, dict)
    assert answer.headers["x-openstack-request-id"]


def encoded(body: Any) -> bytes:
    """Return a body as JSON, an empty object for one that JSON cannot express."""
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, OverflowError):
        return b"{}"
