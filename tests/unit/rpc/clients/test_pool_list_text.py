# SPDX-License-Identifier: Apache-2.0
import base64
import json
import zlib

import msgspec
import pytest

from tonnage.capacity import errors
from tonnage.rpc import packed_reports
from tonnage.rpc.clients import pool_list_text
from tonnage.rpc.messages import PoolListText

HEARD = {"updated": "2026-01-02T12:00:00", "timestamp": "2026-01-02T12:00:00", "figures_age_seconds": 1.5}


def part(*capabilities: dict[str, object]) -> PoolListText:
    pools = [{"capabilities": pool_list_text.with_gap(dict(each), HEARD)} for each in capabilities]
    return PoolListText(
        text=packed_reports.packed(msgspec.json.encode(pools)[1:-1]), last_report=pool_list_text.last_report_text(HEARD)
    )


def test_what_changes_all_the_time_is_put_into_each_pool() -> None:
    reported = ({"colour": "red"}, {"text": "a \0 gap? \\u0000", "timestamp": "the driver's own"})
    answer = [part(*reported), part({})]
    found = json.loads(b"[%s]" % b",".join(pool_list_text.PoolListReader().parts(answer)))
    assert [pool["capabilities"] for pool in found] == [{**each, **HEARD} for each in (*reported, {})]


def test_what_comes_again_is_not_unpacked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, answer = pool_list_text.PoolListReader(), [part({"colour": "red"}), part({})]
    before = reader.parts(answer)
    monkeypatch.setattr(packed_reports, "unpacked", lambda text: pytest.fail("it was unpacked again"))
    assert reader.parts(answer) == before
    assert reader.parts(answer[:1]) == before[:1]


@pytest.mark.parametrize("text", ["no base64!", base64.b64encode(zlib.compress(b"{}")[:-3]).decode()])
def test_what_cannot_be_read_is_an_error_of_the_other_side(text: str) -> None:
    with pytest.raises(errors.Unavailable, match="the scheduler's list of pools cannot be read"):
        pool_list_text.PoolListReader().parts([PoolListText(text=text)])
