# SPDX-License-Identifier: Apache-2.0
"""Bodies of the history on the wire: what is unknown is null, and no key is missing."""

from typing import Any

import msgspec

from tonnage.extensions.history.api import history_bodies


def sent(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_a_slot_without_limits_has_nulls() -> None:
    figures = dict.fromkeys(
        ("used_gb", "used_min_gb", "used_max_gb", "physical_limit_gb", "promised_gb", "promise_limit_gb")
    )
    flows = dict.fromkeys(("in_flight_max_gb", "created_gb", "deleted_gb", "moved_gb"), 0)
    slot = history_bodies.HistorySlot(slot="2026-01-02T12:00:00", **figures, **flows)
    history = sent(history_bodies.PoolHistory(name="h@b#p", slots=[slot], forecasts=[]))
    assert history == {
        "name": "h@b#p",
        "slots": [{"slot": "2026-01-02T12:00:00", **figures, **flows}],
        "forecasts": [],
    }


def test_a_type_that_nothing_refuses_has_the_same_keys_as_another() -> None:
    usual = {"volume_type": "", "text": "t", "known_days": 3, "runs": 10, "made_at": "2026-01-02T12:00:00"}
    wanted = history_bodies.WantedVolumes(volume_type="gold", size_gb=5, number=2)
    refused = history_bodies.TypeRefusals(**usual, refused_runs=2, filter="F", message="m", requests=[wanted])
    accepted = history_bodies.TypeRefusals(**usual, refused_runs=0, filter=None, message=None, requests=[])
    shown = sent(history_bodies.ComingRefusals([refused, accepted]))["types"]
    assert shown[0].keys() == shown[1].keys()
    assert shown[0]["requests"] == [{"volume_type": "gold", "size_gb": 5, "number": 2}]
    assert (shown[1]["filter"], shown[1]["requests"]) == (None, [])
