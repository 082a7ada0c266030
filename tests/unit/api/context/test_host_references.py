# SPDX-License-Identifier: Apache-2.0
"""References to backends and pools in requests."""

from collections.abc import Iterator

import pytest
from sqlalchemy import orm

from tests.unit.scheduler.world import StoragePool, World
from tonnage.api.context import host_references
from tonnage.api.context.host_references import HostReference
from tonnage.capacity import errors

BACKEND = "host@backend"


def session_of(*pools: str) -> Iterator[orm.Session]:
    world = World({name: StoragePool(10, 1.0, thin=True, thick=False) for name in pools}).started()
    with world.database.reading() as session:
        yield session


@pytest.fixture
def session() -> Iterator[orm.Session]:
    yield from session_of("a", "b")


def test_a_name_is_that_of_a_backend_or_of_a_pool(session: orm.Session) -> None:
    pools = (f"{BACKEND}#a", f"{BACKEND}#b")
    backend, pool = (host_references.find(session, name) for name in (BACKEND, pools[1]))
    assert (backend, backend.name) == (HostReference(BACKEND, pools, None, "nova"), BACKEND)
    assert (pool, pool.name) == (HostReference(BACKEND, pools, pools[1], "nova"), pools[1])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("host@other", "there is no such backend"),
        ("", "there is no such backend"),
        (f"{BACKEND}#c", f"the pools of that backend are {BACKEND}#a, {BACKEND}#b"),
        (f"{BACKEND}#", f"the pools of that backend are {BACKEND}#a, {BACKEND}#b"),
    ],
)
def test_an_unknown_name_is_refused(session: orm.Session, name: str, problem: str) -> None:
    with pytest.raises(errors.InvalidInput, match=problem):
        host_references.find(session, name)


def test_the_only_pool_of_a_backend_need_not_be_named() -> None:
    assert HostReference(BACKEND, ("p",)).single_pool() == "p"
    assert HostReference(BACKEND, ("p", "q"), "q").single_pool() == "q"
    with pytest.raises(errors.InvalidInput, match="expected one of its pools, p, q"):
        HostReference(BACKEND, ("p", "q")).single_pool()
    with pytest.raises(errors.InvalidInput, match="not reported yet"):
        HostReference(BACKEND, ()).single_pool()
