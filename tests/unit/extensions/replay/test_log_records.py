# SPDX-License-Identifier: Apache-2.0
"""The lines of a decision log."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import Pool
from tonnage.capacity.request import Request
from tonnage.extensions.replay import log_records
from tonnage.extensions.replay.log_records import Decided, Gone, PoolLine, Traits


def test_every_figure_that_decisions_read_is_recorded() -> None:
    floats = {each.name for each in dataclasses.fields(Pool) if each.type is float}
    worked_out = {"in_flight", "in_flight_physical", "others", "storage_room"}
    assert set(log_records.FIGURES) == floats - worked_out
    others = {each.name for each in dataclasses.fields(Pool)} - floats - {"name"}
    assert set(log_records.Traits.__struct_fields__) == others


def test_a_log_of_another_format() -> None:
    with pytest.raises(errors.InvalidInput, match="the log has format 9, and this release reads 1"):
        log_records.decode(
            b'{"line":"rules","time":"","host":"h","filters":[],"weighers":{},"calculation":"cinder",'
            b'"default_ratio":20.0,"volumes":false,"begins":true,"format":9}'
        )


TRAITS = Traits(True, False, True, True, "disks", "az1", {"compression": True}, expired=True)


@given(
    st.lists(
        st.one_of(st.floats(0, 1e9), st.just(math.inf), st.just(math.nan)),
        min_size=len(log_records.FIGURES),
        max_size=len(log_records.FIGURES),
    ),
    st.one_of(st.none(), st.just("auto"), st.floats(1, 100)),
)
def test_a_pool_is_read_as_it_was_written(values: list[float], ratio: float | str | None) -> None:
    line = log_records.decode(log_records.encode(PoolLine("h@b#p", log_records.figures(values, ratio), TRAITS)))
    assert isinstance(line, PoolLine)
    assert line.figures is not None
    pool, reported_ratio = log_records.pool(line.name, line.figures, TRAITS)
    np.testing.assert_array_equal([getattr(pool, figure) for figure in log_records.FIGURES], values)
    assert reported_ratio == ratio
    assert (pool.thin, pool.thick, pool.expired, pool.storage_id) == (True, False, True, "disks")
    assert (pool.availability_zone, pool.capabilities) == ("az1", {"compression": True})


def test_a_line_contains_the_changes_of_a_pool_alone() -> None:
    assert json.loads(log_records.encode(PoolLine("p", figures=[1.0]))) == {
        "line": "pool",
        "name": "p",
        "figures": [1.0],
    }


@pytest.mark.parametrize("text", [b"", b"{}", b'{"line":"other"}', b'{"line":"gone","names":["p"', b'{"line":"gone"}'])
def test_a_line_that_is_none_of_a_log_is_refused(text: bytes) -> None:
    with pytest.raises(errors.InvalidInput, match="no line of a decision log"):
        log_records.decode(text)


def test_broken_text_of_a_driver_is_written_with_a_replacement() -> None:
    line = log_records.decode(log_records.encode(Gone(["p\udcff", "q"])))
    assert isinstance(line, Gone)
    assert line.names[1] == "q"
    assert line.names[0].startswith("p")
    assert "\udcff" not in line.names[0]


def test_members_of_a_group_keep_their_rules() -> None:
    requests = [Request("r", size) for size in (3, 2)]
    decided = Decided(
        "t", "3 + 2 GiB", requests, [], [], together=True, copied_gb=[0, 1], same=[[1], [0]], different=[[], [7]]
    )
    first, second = decided.members
    assert (first.request.size_gb, first.copied_gb, first.same, first.different) == (3, 0, {1}, frozenset())
    assert (second.request.size_gb, second.copied_gb, second.same, second.different) == (2, 1, {0}, {7})
    assert first.mates == second.mates == frozenset()
