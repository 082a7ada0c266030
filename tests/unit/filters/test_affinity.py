# SPDX-License-Identifier: Apache-2.0
"""SameBackendFilter and DifferentBackendFilter."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters import affinity
from tonnage.filters.different_backend import DifferentBackendFilter
from tonnage.filters.same_backend import SameBackendFilter

POOLS = PoolTable(Pool(name=name, total=10.0, free=10.0) for name in ("a@x#1", "a@x#2", "b@x#1", "c@x#1"))
SAME, DIFFERENT = SameBackendFilter(SimpleNamespace()), DifferentBackendFilter(SimpleNamespace())


def test_without_hints_every_pool_will_do() -> None:
    request = Request("r", 1)
    assert SAME.accepts(POOLS, request).all()
    assert DIFFERENT.accepts(POOLS, request).all()


def test_beside_and_away_from() -> None:
    request = Request("r", 1, same_backends=frozenset(["a@x", "gone@x"]), different_backends=frozenset(["a@x", "b@x"]))
    assert SAME.accepts(POOLS, request).tolist() == [True, True, False, False]
    assert DIFFERENT.accepts(POOLS, request).tolist() == [False, False, False, True]


def test_a_hint_that_names_no_volume_that_is_anywhere() -> None:
    request = Request("r", 1, same_backends=frozenset(), different_backends=frozenset())
    assert not SAME.accepts(POOLS, request).any()
    assert DIFFERENT.accepts(POOLS, request).all()


@pytest.mark.parametrize("value", ["none", "", None, 5, ["none"], [str(uuid.uuid4()), 5], [None]])
def test_a_hint_that_is_no_id_fits_no_pool(value: Any) -> None:
    for plugin, hint in ((SAME, "same_host"), (DIFFERENT, "different_host")):
        request = Request("r", 1, hints={hint: value})
        assert not plugin.accepts(POOLS, request).any()
        assert plugin.kept_by(request) is None
        rejection = plugin.reason(POOLS.row(0), request)
        assert rejection.code == "bad_hint"
        assert rejection.message.startswith(f"cannot be judged by the hint {hint}: ")
        assert rejection.message.endswith(" is no id of a volume")


def test_a_list_of_nothing_asks_for_nothing() -> None:
    request = Request("r", 1, hints={"same_host": [], "different_host": []})
    assert SAME.accepts(POOLS, request).all()
    assert DIFFERENT.accepts(POOLS, request).all()


def test_what_hints_name() -> None:
    assert affinity.named({"same_host": "a"}, "same_host") == ["a"]
    assert affinity.named({"same_host": ["a", 5, "b"]}, "same_host") == ["a", "b"]
    assert affinity.named({"same_host": 5}, "same_host") == []
    assert affinity.named({}, "same_host") == []


def test_reasons_name_the_backends() -> None:
    request = Request("r", 1, same_backends=frozenset(["a@x"]), different_backends=frozenset(["b@x"]))
    pool = POOLS.row(2)
    assert "(a@x)" in SAME.reason(pool, request).message
    assert "b@x" in DIFFERENT.reason(pool, request).message
