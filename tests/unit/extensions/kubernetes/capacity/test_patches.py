# SPDX-License-Identifier: Apache-2.0
"""Patches of a driver's storage."""

from typing import Any

import msgspec
import pytest

from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch


def change(raw: Any) -> DriverPatch:
    return type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))


def pools(*listed: dict[str, Any], of: str = "fast") -> dict[str, Any]:
    return {"storage": [{"storageClassName": of, "pools": list(listed)}]}


@pytest.mark.parametrize(
    "raw",
    [
        pools({"name": ""}),
        # MariaDB treats this as the name without the space.
        pools({"name": "a "}),
        pools({"name": "a"}, of="fast "),
        pools({"capacity": 1}),
        pools({"name": "a", "maximumvolumesize": 1}),
        pools({"name": "a", "capacity": "1K"}),
        pools({"name": "a", "capacity": -1}),
        pools({"name": "a", "expiryTime": "2026-11-21T12:00:00"}),
        pools({"name": "a", "$patch": "replace"}),
        # Null removes values of a pool. A part of a value cannot be null.
        pools({"name": "a", "nodeTopology": {"nodeSelectorTerms": None}}),
        pools({"name": "a", "nodeTopology": {"nodeSelectorTerms": [{"matchExpressions": None}]}}),
        pools({"name": "a", "nodeList": [None]}),
        {"storage": [None]},
        {"storage": [{"storageClassName": "fast", "pools": [None]}]},
        pools({"name": "a"}, of="x" * 254),
    ],
)
def test_a_malformed_patch_is_refused(raw: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        change({"status": raw})
