# SPDX-License-Identifier: Apache-2.0
"""The commands of OpenStackClient, with answers of the REST API as they are."""

from types import SimpleNamespace
from typing import Any

import pytest

from tonnage.cli.overviews import openstack_client

GIB = 2**30


class Volumes:
    """The client of the volume API. ``requests`` are its queries."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer

    def get(self, path: str, params: dict[str, Any]) -> Any:
        self.requests.append((path, params))
        return SimpleNamespace(status_code=200, json=lambda: self._answer)


def take_action(command_class: Any, volumes: Volumes, *arguments: str) -> tuple[tuple[str, ...], Any]:
    """Run a command with these arguments."""
    app = SimpleNamespace(client_manager=SimpleNamespace(sdk_connection=SimpleNamespace(volume=volumes)))
    command = command_class(app, SimpleNamespace())
    columns, values = command.take_action(command.get_parser("openstack volume").parse_args(arguments))
    return tuple(columns), values


REFUSAL = {
    "refused_at": "2026-01-02T12:00:00",
    "verb": "create",
    "code": "no_capacity",
    "message": "No pool for 60 GiB",
    "request": "60 GiB",
    "filter": "CapacityFilter",
    "pool": "h@b#p",
    "largest_size_gb": 1.5,
    "project_id": "demo",
    "volume_id": "v",
    "request_id": "r",
}


def test_refusals_have_sizes_in_bytes() -> None:
    volumes = Volumes({"refusals": [REFUSAL, {**REFUSAL, "largest_size_gb": None}]})
    columns, rows = take_action(openstack_client.ListRefusals, volumes, "--long", "--project", "demo", "--limit", "7")
    sizes = [dict(zip(columns, row, strict=True))["largest_size_bytes"] for row in rows]
    assert sizes == [3 * GIB // 2, None]
    assert volumes.requests == [("/scheduler-stats/refusals", {"project_id": "demo", "limit": 7})]


@pytest.mark.parametrize(
    ("arguments", "columns", "key"),
    [
        ((), ("refused_at", "verb", "code", "message"), "refusals"),
        (("--summary",), ("day", "verb", "filter", "code", "refusals", "last_at"), "refusal_counts"),
    ],
)
def test_a_table_has_the_columns_of_its_option(arguments: tuple[str, ...], columns: tuple[str, ...], key: str) -> None:
    volumes = Volumes({key: []})
    shown, rows = take_action(openstack_client.ListRefusals, volumes, *arguments)
    assert (shown, list(rows)) == (columns, [])
    assert volumes.requests[0][1] == ({"summary": "true"} if arguments else {})


def verdict(pool: str, **values: Any) -> dict[str, Any]:
    plain = dict.fromkeys(("filter", "rejection", "headroom", "thin", "total_weight"))
    return {"pool": pool, "also": [], **plain, **values}


def test_the_pools_of_a_decision_have_verdicts() -> None:
    rejection = {"code": "no_capacity", "message": "has headroom 2 GiB"}
    further = [{"filter": "OddFilter", "rejection": {"code": "odd", "message": "is odd"}}]
    verdicts = [
        verdict("h@b#p", headroom="infinite", thin=True, total_weight=1.0),
        verdict("h@b#q", headroom=0.5),
        verdict("h@b#r", filter="CapacityFilter", rejection=rejection, also=further),
    ]
    explanation = {"pool": "h@b#p", "message": "4 GiB goes to h@b#p", "verdicts": verdicts}
    why: dict[str, Any] = {
        "volume_id": "v",
        "size_gb": 4,
        "claims": [{"verb": "create", "size_gb": 4}],
        "refusals": [],
        "explanation": explanation,
        "unexplained": None,
    }
    volumes = Volumes({"why": why})
    columns, values = take_action(openstack_client.ShowWhy, volumes, "v")
    shown = dict(zip(columns, values, strict=True))
    assert volumes.requests == [("/scheduler-stats/why", {"volume": "v"})]
    assert (shown["size_bytes"], shown["claims"]) == (4 * GIB, [{"verb": "create", "size_bytes": 4 * GIB}])
    assert (shown["pool_now"], shown["decision_now"]) == ("h@b#p", "4 GiB goes to h@b#p")
    assert [(pool["verdict"], pool["headroom_bytes"], pool["code"]) for pool in shown["pools"]] == [
        ("chosen", None, None),
        ("candidate", GIB // 2, None),
        ("refused", None, "no_capacity"),
    ]
    assert [pool["because"] for pool in shown["pools"]] == [
        None,
        None,
        "CapacityFilter: has headroom 2 GiB; OddFilter: is odd",
    ]


def test_a_decision_that_is_unknown_has_its_reason() -> None:
    why: dict[str, Any] = {"claims": [], "refusals": [], "explanation": None, "unexplained": "no scheduler answers"}
    columns, values = take_action(openstack_client.ShowWhy, Volumes({"why": why}), "v")
    shown = dict(zip(columns, values, strict=True))
    assert (shown["pool_now"], shown["decision_now"], shown["pools"]) == (None, "no scheduler answers", [])
