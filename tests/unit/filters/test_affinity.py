# SPDX-License-Identifier: Apache-2.0
"""Tests of SameBackendFilter and DifferentBackendFilter."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.filters import affinity
from tonnage.filters.affinity import DifferentBackendFilter, SameBackendFilter

POOLS = PoolTable(Pool(name=name, total=10.0, free=10.0) for name in ("a@x#1", "a@x#2", "b@x#1", "c@x#1"))
SAME, DIFFERENT = SameBackendFilter(SimpleNamespace()), DifferentBackendFilter(SimpleNamespace())


def test_without_hints_every_pool_is_accepted() -> None:
    request = Request("r", 1)
    assert SAME.accepts(POOLS, request).all()
    assert DIFFERENT.accepts(POOLS, request).all()


def test_pools_are_accepted_by_the_backends_of_the_hinted_volumes() -> None:
    request = Request("r", 1, same_backends=frozenset(["a@x", "gone@x"]), different_backends=frozenset(["a@x", "b@x"]))
    assert SAME.accepts(POOLS, request).tolist() == [True, True, False, False]
    assert DIFFERENT.accepts(POOLS, request).tolist() == [False, False, False, True]


def test_hinted_volumes_without_a_backend() -> None:
    request = Request("r", 1, same_backends=frozenset(), different_backends=frozenset())
    assert not SAME.accepts(POOLS, request).any()
    assert DIFFERENT.accepts(POOLS, request).all()


@pytest.mark.parametrize("value", ["none", "", None, 5, ["none"], [str(uuid.uuid4()), 5], [None]])
def test_an_invalid_id_in_the_hint_refuses_every_pool(value: Any) -> None:
    for plugin, hint in ((SAME, "same_host"), (DIFFERENT, "different_host")):
        request = Request("r", 1, hints={hint: value})
        assert not plugin.accepts(POOLS, request).any()
        rejection = plugin.reason(POOLS.row(0), request)
        assert rejection.code == "bad_hint"
        assert rejection.message.startswith(f"cannot be judged by the hint {hint}: ")
        assert rejection.message.endswith(" is no id of a volume")


def test_empty_hints_accept_every_pool() -> None:
    request = Request("r", 1, hints={"same_host": [], "different_host": []})
    assert SAME.accepts(POOLS, request).all()
    assert DIFFERENT.accepts(POOLS, request).all()


def test_hinted_volumes_are_the_texts_in_a_hint() -> None:
    assert affinity.hinted_volumes({"same_host": "a"}, "same_host") == ["a"]
    assert affinity.hinted_volumes({"same_host": ["a", 5, "b"]}, "same_host") == ["a", "b"]
    assert affinity.hinted_volumes({"same_host": 5}, "same_host") == []
    assert affinity.hinted_volumes({}, "same_host") == []


def test_reasons_name_the_backends() -> None:
    request = Request("r", 1, same_backends=frozenset(["a@x"]), different_backends=frozenset(["b@x"]))
    pool = POOLS.row(2)
    assert "(a@x)" in SAME.reason(pool, request).message
    assert "b@x" in DIFFERENT.reason(pool, request).message
