# SPDX-License-Identifier: Apache-2.0
"""The pool table, compared with a dictionary of pools."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tonnage.capacity.pools.pool import backend_of, pool_name, short_name, stable_hash
from tonnage.capacity.pools.pool_table import Pool, PoolTable

NAMES = st.integers(0, 40).map(lambda number: f"host@backend#{number}")
NEW_POOLS = st.builds(
    Pool,
    name=NAMES,
    total=st.just(100.0),
    free=st.integers(0, 100).map(float),
    provisioned=st.sampled_from([math.nan, 0.0, 10.0]),
    allocated=st.integers(0, 20).map(float),
    claimed=st.integers(0, 20).map(float),
    claimed_physical=st.integers(0, 20).map(float),
    shared_allocated=st.integers(0, 20).map(float),
    shared_in_flight=st.integers(0, 20).map(float),
    shared_in_flight_physical=st.integers(0, 20).map(float),
    external=st.integers(0, 20).map(float),
    storage_free=st.sampled_from([math.nan, 30.0, 60.0]),
    storage_id=st.sampled_from([None, "array-1", "array-2"]),
    thin=st.booleans(),
    up=st.booleans(),
    availability_zone=st.sampled_from(["", "a", "b"]),
    capabilities=st.sampled_from([{}, {"volume_backend_name": "x"}]),
)


def summed_up(pools: dict[str, Pool]) -> dict[str, str]:
    """Return each pool as text, with what counts against its figures."""
    expected = {}
    for pool in pools.values():
        carved_out = not math.isnan(pool.storage_free)
        all_physical = pool.claimed_physical + pool.shared_in_flight_physical
        seen = dataclasses.replace(
            pool,
            in_flight=pool.claimed + pool.shared_in_flight,
            in_flight_physical=pool.claimed_physical if carved_out else all_physical,
            others=pool.shared_allocated + pool.external,
            storage_room=pool.storage_free - all_physical if carved_out else math.inf,
        )
        expected[pool.name] = repr(seen)
    return expected


def content(table: PoolTable) -> dict[str, str]:
    return {pool.name: repr(pool) for pool in table}


class Table(RuleBasedStateMachine):
    """Anything may be done to a table; it always equals the dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.pools: dict[str, Pool] = {}
        self.table = PoolTable()
        self.kept: list[tuple[PoolTable, dict[str, str]]] = []

    @rule(pool=NEW_POOLS)
    def put(self, pool: Pool) -> None:
        self.table.put(pool)
        self.pools[pool.name] = pool

    @rule(pools=st.lists(NEW_POOLS, max_size=12))
    def put_columns(self, pools: list[Pool]) -> None:
        columns = {
            field.name: [getattr(pool, field.name) for pool in pools]
            for field in dataclasses.fields(Pool)
            # Some are left out, as in a new pool they are the same; the sums are none of the caller's business.
            if field.name not in ("name", "enabled", "thick", "ratio", "in_flight", "others", "storage_room")
        }
        self.table.put_columns([pool.name for pool in pools], columns | {"total": 100.0})
        self.pools |= {pool.name: pool for pool in pools}

    @rule(pools=st.lists(NEW_POOLS, min_size=10, max_size=25))
    def put_many(self, pools: list[Pool]) -> None:
        for pool in pools:
            self.put(pool)

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.table.remove(name)
        self.pools.pop(name, None)

    @rule(name=NAMES, size=st.integers(-20, 20), physical=st.integers(-20, 20))
    def claim(self, name: str, size: float, physical: float) -> None:
        index = self.table.index(name)
        assert (index is None) == (name not in self.pools)
        if index is not None:
            self.table.claim(index, size, physical)
            pool = self.pools[name]
            self.pools[name] = dataclasses.replace(
                pool,
                allocated=pool.allocated + size,
                claimed=pool.claimed + size,
                claimed_physical=pool.claimed_physical + physical,
            )
            for other in self.pools.values():
                if pool.storage_id is None or other.storage_id != pool.storage_id or other.name == name:
                    continue
                whole = size if math.isnan(other.storage_free) else 0
                self.pools[other.name] = dataclasses.replace(
                    other,
                    shared_allocated=other.shared_allocated + whole,
                    shared_in_flight=other.shared_in_flight + whole,
                    shared_in_flight_physical=other.shared_in_flight_physical + physical,
                )

    @rule()
    def keep(self) -> None:
        self.kept.append((self.table.snapshot(), summed_up(self.pools)))

    @rule()
    def go_on_with_a_copy(self) -> None:
        self.table = self.table.snapshot()

    @invariant()
    def equals_the_dictionary(self) -> None:
        assert content(self.table) == summed_up(self.pools)
        assert len(self.table) == len(self.table.total) == len(self.table.up) == len(self.pools)
        for name in self.pools:
            assert name in self.table
            assert repr(self.table.get(name)) == summed_up(self.pools)[name]
        for zone in ("", "a", "b", "nowhere"):
            in_zone = {name for name, is_in in zip(self.table.names, self.table.in_zone(zone), strict=True) if is_in}
            assert in_zone == {pool.name for pool in self.pools.values() if pool.availability_zone == zone}
        assert self.table.name_hash.tolist() == [stable_hash(name) for name in self.table.names]

    @invariant()
    def snapshots_stay(self) -> None:
        for snapshot, expected in self.kept[-3:]:
            assert content(snapshot) == expected


TestTable = Table.TestCase
TestTable.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)


def test_backends_on_one_array_pool_count_each_others_claims() -> None:
    table = PoolTable(
        Pool(name=name, total=100.0, free=100.0, provisioned=0.0, storage_id="array") for name in ("a@x#p", "b@x#p")
    )
    table.claim(0, 30, 10)
    assert table.in_flight.tolist() == [30, 30]
    assert table.in_flight_physical.tolist() == [10, 10]
    assert table.allocated.tolist() == [30, 0]
    assert table.others.tolist() == [0, 30]
    assert table.sharing(0) == ["a@x#p", "b@x#p"]
    table.claim(0, -30, -10)
    assert table.in_flight.tolist() == [0, 0]


def test_partitions_of_one_storage_share_only_its_physical_room() -> None:
    table = PoolTable(
        Pool(name=name, total=50.0, free=50.0, storage_id="disk", storage_free=free)
        for name, free in (("h@fs#a", 60.0), ("h@fs#b", 58.0))
    )
    table.claim(0, 30, 30)
    assert table.in_flight.tolist() == [30, 0]
    assert table.storage_room.tolist() == [30, 28]


def test_a_reverted_claim_leaves_the_figures_unchanged() -> None:
    table = PoolTable([Pool(name="h@b#p", total=1.0, free=1.0)])
    before = content(table)
    table.claim(0, 5, 5)
    assert content(table) != before
    table.claim(0, -5, -5)
    assert content(table) == before


def test_a_table_and_its_snapshot_are_independent() -> None:
    table = PoolTable([Pool(name="a@x#p", total=100.0, free=100.0, storage_id="array")])
    snapshot = table.snapshot()
    table.put(Pool(name="b@x#p", total=100.0, free=100.0, storage_id="array", claimed=5.0))
    snapshot.claim(0, 30, 10)
    assert table.in_flight.tolist() == [0, 5]
    assert snapshot.in_flight.tolist() == [30]


def test_claims_count_for_all_pools_of_a_large_storage() -> None:
    table = PoolTable(
        Pool(name=f"h@b{number % 2}#{number}", total=9.0, free=9.0, provisioned=0.0, storage_id="array")
        for number in range(4000)
    )
    assert set(table.backends_on("array")) == {"h@b0", "h@b1"}
    assert not table.backends_on("another")
    for number in range(20):
        table.claim(number, 1, 1)
    assert table.in_flight.tolist() == [20.0] * 4000
    for number in range(0, 4000, 2):
        table.remove(f"h@b0#{number}")
    assert set(table.backends_on("array")) == {"h@b1"}
    table.claim(0, 1, 1)
    assert table.in_flight.tolist() == [21.0] * 2000


def test_numbers_of_volumes() -> None:
    table = PoolTable(Pool(name=f"h@b#{number}", total=1.0, free=1.0) for number in range(3))
    counted = table.derived("volumes", lambda pools: pools.volumes)
    table.set_volumes({"h@b#1": 7, "h@b#gone": 9})
    table.set_volumes({})
    assert table.volumes.tolist() == [0, 7, 0]
    assert counted.tolist() == [0, 0, 0]
    assert table.derived("volumes", lambda pools: pools.volumes).tolist() == [0, 7, 0]


def test_figures_are_set_in_changed_rows_alone() -> None:
    table = PoolTable(Pool(name=f"h@b#{number}", total=100.0, free=50.0) for number in range(10))
    computed: list[int] = []

    def in_flight(pools: PoolTable) -> npt.NDArray[np.float64]:
        computed.append(len(pools))
        return pools.in_flight.copy()

    table.derived("in flight", in_flight)
    table.set_figures(["h@b#1", "h@b#2"], {"claimed": [3.0, 0.0], "shared_in_flight": [1.0, 0.0]})
    assert table.derived("in flight", in_flight).tolist() == [0, 4, *[0] * 8]
    table.set_figures(["h@b#1"], {"claimed": [3.0]})
    assert table.derived("in flight", in_flight)[1] == 4
    assert computed == [10, 1]
    assert (table.total[1], table.free[1]) == (100.0, 50.0)


def test_rows_are_not_looked_up_by_partial_names() -> None:
    table = PoolTable([Pool(name="h@b#p", total=1.0, free=1.0)])
    assert table.get("h@b") is None
    assert table.index("p") is None
    table.remove("h@b")
    assert table.names == ("h@b#p",)


def test_names() -> None:
    assert pool_name("h@b", "p") == "h@b#p"
    assert (backend_of("h@b#p"), short_name("h@b#p")) == ("h@b", "p")
    assert Pool(name="h@b#p", total=1.0, free=1.0).backend == "h@b"


def test_hashes_are_the_same_in_every_process() -> None:
    command = "from tonnage.capacity.pools.pool import stable_hash; print(stable_hash('h@b#p'))"
    printed = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True)
    assert int(printed.stdout) == stable_hash("h@b#p")
    assert np.uint64(stable_hash("\ud800")) >= 0
