# SPDX-License-Identifier: Apache-2.0
"""Processes of the first release, which go on during an upgrade: their messages arrive, and ours do there.

:mod:`tests.unit.rpc.first_version` has the messages as they were; tests/functional/test_upgrade.py runs that release.
"""

import json
from typing import Any

import pytest

from tests.unit.rpc import first_version as old
from tonnage.capacity import decision, explanation
from tonnage.rpc import messages as new
from tonnage.rpc import serialization

OUTCOME: dict[str, Any] = {"backend": "h@b", "epoch": 3, "claim_id": "c", "ok": False, "end_tick": 9}
MORE_OUTCOME = OUTCOME | {"size_gb": 1.5, "clean": True, "message": "no room"}
COMMAND: dict[str, Any] = {
    "claim_id": "c",
    "epoch": 3,
    "verb": "create",
    "volume_id": "v",
    "pool": "p",
    "size_gb": 2,
    "provisioning": "thin",
    "ratio": 1.5,
    "calculation": "standard",
}
CREATE: dict[str, Any] = {"request_id": "r", "volume_id": "v", "size_gb": 2, "project_id": "p"}
REFUSAL = {
    "what": "2 GiB thin",
    "pools": 3,
    "outcomes": [{"filter": "CapacityFilter", "refused": 3}],
    "nearest": {
        "pool": "h@b#p",
        "filter": "CapacityFilter",
        "rejection": {"code": "no_capacity", "message": "has headroom 1 GiB", "numbers": {"headroom": 1.0, "x": None}},
    },
    "pool": "h@b#p",
}
ANSWER: dict[str, Any] = {"volume_id": "v", "pool": "h@b#p", "provisioning": "thick"}
EXPLANATION = {
    "what": "2 GiB",
    "pool": "h@b#p",
    "message": "goes there",
    "verdicts": [
        {
            "pool": "h@b#p",
            "filter": None,
            "rejection": None,
            "weights": [{"weigher": "W", "raw": 1.0, "scaled": 0.5, "multiplier": -1.0}],
            "total_weight": -0.5,
        },
        {
            "pool": "h@b#q",
            "filter": "F",
            "rejection": REFUSAL["nearest"]["rejection"],
            "weights": [],
            "total_weight": None,
        },  # type: ignore[index]
    ],
}

#: Everything that the first version has, with nothing that may be left out and with all of it.
MESSAGES: list[tuple[str, dict[str, Any]]] = [
    ("Hello", {"backend": "h@b", "nonce": "n", "availability_zone": "nova", "driver": "memory"}),
    ("Welcome", {"epoch": 3}),
    ("Listing", {"backend": "h@b", "epoch": 3, "tick": 7, "volumes": []}),
    (
        "Listing",
        {
            "backend": "h@b",
            "epoch": 3,
            "tick": 7,
            "volumes": [{"volume_id": "v", "pool": "p", "size_gb": 2.5}],
            "in_hand": ["c"],
        },
    ),
    ("Outcome", OUTCOME),
    ("Outcome", MORE_OUTCOME),
    ("BackendReport", {"backend": "h@b", "epoch": 3, "seq": 2, "covers": 5, "pools": []}),
    (
        "BackendReport",
        {
            "backend": "h@b",
            "epoch": 3,
            "seq": 2,
            "covers": 5,
            "pools": [{"pool_name": "p", "free_capacity_gb": "unknown"}],
            "ended": [MORE_OUTCOME],
            "in_hand": ["c"],
            "age": 0.25,
        },
    ),
    ("Receipt", {"accepted": False}),
    ("Command", COMMAND),
    ("Command", COMMAND | {"verb": "extend", "request_id": "r"}),
    ("Command", COMMAND | {"verb": "delete", "provisioning": "thick", "calculation": "cinder"}),
    ("CreateVolume", CREATE),
    (
        "CreateVolume",
        CREATE
        | {
            "user_id": "u",
            "name": "n",
            "description": "d",
            "volume_type": "gold",
            "availability_zone": "z",
            "metadata": {"a": "b"},
            "hints": {"same_host": ["w"]},
        },
    ),
    ("ExtendVolume", {"request_id": "r", "volume_id": "v", "new_size_gb": 3}),
    ("DeleteVolume", {"request_id": "r", "volume_id": "v"}),
    ("Answer", {"volume_id": "v"}),
    ("Answer", ANSWER),
    ("Answer", {"volume_id": "v", "refusal": REFUSAL}),
    ("PoolQuery", {}),
    ("PoolQuery", {"name": "p", "volume_type": "gold", "capabilities": {"a": "b"}}),
    ("PoolView", {"name": "p", "capabilities": {"a": 1}, "capacity_factors": [{"b": 2.5}]}),
    ("Explanation", EXPLANATION),
]

#: What the present messages carry besides, none of which an old process may stumble over.
ADDED: dict[str, dict[str, Any]] = {
    "Hello": {"rpc_version": "1.1"},
    "Welcome": {"rpc_version": "1.1"},
    "BackendReport": {"stamps": {"array": 3}},
    "Command": {"source": {"volume_id": "w", "pool": "h@c#p", "size_gb": 1, "location": "l"}, "reference": "lun-7"},
    "CreateVolume": {"source_volume_id": "w"},
}


def present(name: str) -> type[Any]:
    """Return the present class of a message."""
    for module in (new, explanation, decision):
        if hasattr(module, name):
            found: type[Any] = getattr(module, name)
            return found
    raise LookupError(name)


def carried(packed: Any) -> Any:
    """Return what arrives on the other side of a bus."""
    return json.loads(json.dumps(packed))


def without_what_was_added(packed: Any, like: Any) -> Any:
    """Return of nested mappings what ``like`` has as well."""
    if isinstance(like, dict):
        return {key: without_what_was_added(packed[key], value) for key, value in like.items()}
    if isinstance(like, (list, tuple)):
        return type(like)(without_what_was_added(*pair) for pair in zip(packed, like, strict=True))
    return packed


@pytest.mark.parametrize(("name", "fields"), MESSAGES)
def test_a_message_of_an_old_process_arrives(name: str, fields: dict[str, Any]) -> None:
    sent = serialization.pack(serialization.unpack(fields, getattr(old, name)))
    assert without_what_was_added(sent, fields) == fields
    arrived = serialization.pack(serialization.unpack(carried(sent), present(name)))
    assert without_what_was_added(arrived, sent) == sent


@pytest.mark.parametrize(("name", "fields"), MESSAGES)
def test_a_message_arrives_at_an_old_process(name: str, fields: dict[str, Any]) -> None:
    sent = serialization.pack(serialization.unpack(fields | ADDED.get(name, {}), present(name)))
    assert sent.keys() >= ADDED.get(name, {}).keys()
    arrived = serialization.pack(serialization.unpack(carried(sent), getattr(old, name)))
    assert without_what_was_added(arrived, fields) == fields


def test_each_message_of_the_first_version_is_looked_at() -> None:
    nested = {"ListedVolume", "Rejection", "FilterOutcome", "NearestMiss", "Refusal", "Weight", "PoolVerdict"}
    known = {name for name, kind in vars(old).items() if hasattr(kind, "__dataclass_fields__")}
    assert known == {name for name, _ in MESSAGES} | nested
