# SPDX-License-Identifier: Apache-2.0
import base64
import math
import zlib
from dataclasses import replace

import pytest

from tonnage.capacity import errors
from tonnage.rpc import packed_reports, serialization
from tonnage.rpc.messages import BackendReport, Outcome
from tonnage.rpc.packed_reports import PackedReport

REPORT = BackendReport(
    backend="h@b",
    epoch=3,
    seq=7,
    covers=5,
    pools=[{"pool_name": f"p{number} \N{SNOWMAN}", "free_capacity_gb": number / 3} for number in range(50)],
    ended=[Outcome(backend="h@b", claim_id="c", epoch=3, end_tick=4, ok=True)],
    in_hand=["d"],
    age=0.5,
    stamps={"array": 9},
)


def test_an_unpacked_report_equals_the_packed_one() -> None:
    travelled = serialization.unpack(serialization.pack(PackedReport.of(REPORT)), PackedReport)
    assert travelled.unpack() == REPORT
    assert len(travelled.pools) < len(str(REPORT.pools)) / 3


def test_figures_that_are_not_finite_arrive_unchanged() -> None:
    [pool] = PackedReport.of(replace(REPORT, pools=[{"a": math.nan, "b": math.inf, "c": 2**70}])).unpack().pools
    assert math.isnan(pool["a"])
    assert (pool["b"], pool["c"]) == (math.inf, 2**70)


@pytest.mark.parametrize("value", ["half a \ud800", 2**70, -0.0, True, [{"deeper": None}], "\x00"])
def test_every_value_travels_as_it_is(value: object) -> None:
    pools = [{"a": value}]
    assert repr(PackedReport.of(replace(REPORT, pools=pools)).unpack().pools) == repr(pools)


@pytest.mark.parametrize(
    "pools",
    [
        "no base64!",
        base64.b64encode(b"not compressed").decode(),
        base64.b64encode(zlib.compress(b"[{}]")[:-3]).decode(),
        base64.b64encode(zlib.compress(b"[{")).decode(),
        base64.b64encode(zlib.compress(b"[" * 100_000)).decode(),
        base64.b64encode(zlib.compress(b"\xff")).decode(),
        base64.b64encode(zlib.compress(b"[1]")).decode(),
    ],
)
def test_what_cannot_be_opened_is_said_with_the_backend(pools: str) -> None:
    with pytest.raises(errors.InvalidInput, match=r"malformed|h@b"):
        replace(PackedReport.of(REPORT), pools=pools).unpack()


def test_a_report_of_too_many_pools_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_reports, "MOST_POOLS", 49)
    text = r"^the report of h@b has 50 pools: a backend has at most 49, so divide them among several backends$"
    with pytest.raises(errors.InvalidInput, match=text):
        PackedReport.of(REPORT).unpack()


def test_what_opens_to_too_much_is_not_opened_to_its_end() -> None:
    with pytest.raises(errors.InvalidInput, match="longer than 100 bytes"):
        PackedReport.of(REPORT).unpack(max_bytes=100)
