# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests about services: schedulers and backends under the names of Cinder and of Tonnage."""

from typing import Any

import pytest

from tonnage.api.http import body
from tonnage.api.schemas import service_bodies
from tonnage.api.schemas.service_bodies import ServiceChange, ServiceDrain, ServiceHost, ServiceReason
from tonnage.capacity import errors
from tonnage.ledger.locks import heartbeats


@pytest.mark.parametrize("key", ["binary", "service"])
@pytest.mark.parametrize(
    ("name", "of_scheduler"),
    [
        ("cinder-volume", False),
        (heartbeats.AGENT, False),
        ("cinder-scheduler", True),
        (heartbeats.SCHEDULER, True),
    ],
)
def test_a_service_has_two_names_under_two_keys(key: str, name: str, of_scheduler: bool) -> None:
    change = body.convert({"host": "h@b", key: name}, ServiceChange)
    assert (change.of_scheduler, change.reason) == (of_scheduler, None)


def test_an_unknown_binary_is_not_found_and_the_error_lists_all() -> None:
    change = body.convert({"host": "h@b", "binary": "cinder-backup"}, ServiceChange)
    with pytest.raises(errors.NotFound) as raised:
        _ = change.of_scheduler
    assert raised.value.message == (
        "Service cinder-backup could not be found on host h@b: there are cinder-volume, cinder-scheduler, "
        "tonnage-agent, tonnage-scheduler."
    )
    assert service_bodies.own_name("cinder-backup") == "cinder-backup"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"host": "h"}, "missing required field binary"),
        ({"host": "h", "binary": ""}, "missing required field binary"),
        ({"binary": "cinder-volume"}, "missing required field host"),
        ({"host": "h", "binary": "cinder-volume", "cluster": "c"}, "cluster is set"),
    ],
)
def test_a_change_names_its_service(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        body.convert(sent, ServiceChange)


@pytest.mark.parametrize(
    ("sent", "reason"), [({}, None), ({"disabled_reason": " "}, None), ({"disabled_reason": " r "}, "r")]
)
def test_a_drain_may_have_a_reason(sent: dict[str, Any], reason: str | None) -> None:
    assert body.convert({"host": "h@b", "binary": "cinder-volume", **sent}, ServiceDrain).reason == reason


@pytest.mark.parametrize("name", [heartbeats.SCHEDULER, "cinder-scheduler"])
@pytest.mark.parametrize("key", ["binary", "service"])
def test_a_scheduler_cannot_be_drained(key: str, name: str) -> None:
    with pytest.raises(errors.InvalidInput, match="a scheduler has no volumes: only backends can be drained"):
        body.convert({"host": "h", key: name}, ServiceDrain)


@pytest.mark.parametrize("reason", ["", " ", "\t\n", "\u00a0", "\x1c", "\ufeff"])
def test_a_reason_has_to_be_more_than_blanks(reason: str) -> None:
    with pytest.raises(errors.InvalidInput, match="disabled_reason is missing: say why, or use disable"):
        body.convert({"host": "h", "binary": "cinder-volume", "disabled_reason": reason}, ServiceReason)


def test_a_backend_is_named_for_actions_of_replication() -> None:
    assert body.convert({"host": "h@b", "backend_id": "replica", "cluster": ""}, ServiceHost).host == "h@b"
    with pytest.raises(errors.InvalidInput, match="cluster is set"):
        body.convert({"host": "h@b", "cluster": "c"}, ServiceHost)
