# SPDX-License-Identifier: Apache-2.0
"""Messages of a real Cinder, decoded."""

import json
import pathlib

import pytest

from tonnage.extensions.cinder.decoding import cinder_messages
from tonnage.extensions.cinder.decoding.cinder_messages import UNJUDGED, Command, Report, Request, UnjudgedRequest, Verb

_RECORDED = pathlib.Path(__file__).parents[3] / "capacity" / "reports" / "cinder_messages.jsonl"


def recorded() -> list[cinder_messages.Message]:
    """Return the messages about capacity in the record of Cinder 29.0.0."""
    found = []
    for line in _RECORDED.read_text().splitlines():
        row = json.loads(line)
        found.append(cinder_messages.decode(row["exchange"], row["routing_key"], json.dumps(row["body"])))
    return [message for message in found if message is not None]


def test_each_kind_of_message_is_decoded() -> None:
    messages = recorded()
    kinds = {(type(each), getattr(each, "verb", None)) for each in messages}
    judged = {(kind, verb) for kind in (Request, Command) for verb in Verb}
    assert kinds == judged | {(Report, None), (UnjudgedRequest, "create_snapshot")}


def test_an_extend_takes_the_growth() -> None:
    extends = [each for each in recorded() if not isinstance(each, Report) and each.verb is Verb.EXTEND]
    assert [each.size_gb for each in extends] == [2, 2]


def test_a_move_goes_to_its_target() -> None:
    moves = [each for each in recorded() if isinstance(each, Command) and each.verb in (Verb.MIGRATE, Verb.RETYPE)]
    assert [each.pool for each in moves] == ["real@b1#a", "real@b2#a"]


def test_a_request_has_the_type_and_the_pools_that_failed() -> None:
    requests = [each for each in recorded() if isinstance(each, Request)]
    assert any(each.extra_specs == {"volume_backend_name": "b2"} for each in requests)
    assert any(len(each.attempted) == 1 for each in requests if each.verb is Verb.CREATE)


def test_a_report_on_behalf_of_a_user_is_not_periodic() -> None:
    reports = [each for each in recorded() if isinstance(each, Report)]
    assert {each.periodic for each in reports} == {True, False}
    assert {each.backend for each in reports} == {"real@b1", "real@b2"}


@pytest.mark.parametrize("method", sorted(UNJUDGED))
def test_requests_that_are_not_judged_are_named_and_their_commands_are_not(method: str) -> None:
    body = json.dumps({"method": method, "_context_request_id": "req-1", "args": {"volume": {"id": "v"}}})
    wanted = UnjudgedRequest(verb=method, request_id="req-1", volume_id="v")
    assert cinder_messages.decode("openstack", "cinder-scheduler", body) == wanted
    assert cinder_messages.decode("openstack", "cinder-volume.h@b.h", body) is None


def test_other_messages_say_nothing_about_capacity() -> None:
    body = json.dumps({"method": "set_log_levels", "args": {}})
    assert cinder_messages.decode("openstack", "cinder-scheduler", body) is None
    report = {"service_name": "backup", "host": "h", "capabilities": {}, "timestamp": "2026-11-25T00:00:00.000000"}
    body = json.dumps({"method": "update_service_capabilities", "args": report})
    assert cinder_messages.decode("cinder-scheduler_fanout", "", body) is None


def test_a_message_in_an_envelope_is_the_same_message() -> None:
    message = json.dumps({"method": "manage_existing", "args": {"volume": {"id": "v"}}})
    body = json.dumps({"oslo.version": "2.0", "oslo.message": message})
    assert cinder_messages.decode("openstack", "cinder-scheduler", body) == cinder_messages.decode(
        "openstack", "cinder-scheduler", message
    )


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"oslo.message": "5"}', '{"method": "create_volume", "args": {}}'])
def test_a_body_that_is_not_understood_is_an_error_with_its_place(body: str) -> None:
    with pytest.raises(ValueError, match="a message to cinder-scheduler is not understood"):
        cinder_messages.decode("openstack", "cinder-scheduler", body)
