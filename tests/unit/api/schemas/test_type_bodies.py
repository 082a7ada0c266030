# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests for volume types and QoS specs."""

from typing import Any

import pytest

from tonnage.api.http import body
from tonnage.api.schemas import type_bodies
from tonnage.capacity import errors
from tonnage.ledger.catalog.qos_specs import Consumer

IS_PUBLIC = "os-volume-type-access:is_public"


@pytest.mark.parametrize(
    ("sent", "is_public"),
    [({}, True), ({IS_PUBLIC: None}, True), ({IS_PUBLIC: "False"}, False), ({IS_PUBLIC: 1}, True)],
)
def test_a_type_is_public_unless_it_is_told_to_be_private(sent: dict[str, Any], is_public: bool) -> None:
    new_type = body.convert({"volume_type": {"name": "\tgold ", **sent}}, type_bodies.CreateType).volume_type
    assert (new_type.name, new_type.is_public, new_type.extra_specs) == ("gold", is_public, None)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({}, "missing required field name"),
        ({"name": " "}, "name"),
        ({"name": "n" * 256}, "expected str of length <= 255"),
        ({"name": "n", IS_PUBLIC: "perhaps"}, f"{IS_PUBLIC} is neither true nor false"),
        ({"name": "n", "is_public": True}, "unknown field is_public"),
        ({"name": "n", "extra_specs": {"a=b": "1"}}, "extra_specs"),
        ({"name": "n", "extra_specs": {"a": 1}}, "extra_specs"),
    ],
)
def test_other_types_are_refused(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        body.convert({"volume_type": sent}, type_bodies.CreateType)


@pytest.mark.parametrize("changes", [{}, {"name": None}, {"description": None, "is_public": None}])
def test_a_change_of_a_type_changes_something(changes: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput, match="expected at least one of name, description, is_public"):
        body.convert({"volume_type": changes}, type_bodies.UpdateType)


def test_a_change_to_private_is_a_change() -> None:
    changes = body.convert({"volume_type": {"is_public": "false", "name": " n "}}, type_bodies.UpdateType).volume_type
    assert (changes.name, changes.is_public, changes.description) == ("n", False, None)


def test_qos_specs_have_their_name_and_their_consumer_beside_the_specs() -> None:
    sent = body.convert({"qos_specs": {"name": " q ", "consumer": "both", "iops": "5"}}, type_bodies.CreateQosSpecs)
    assert (sent.name, sent.consumer, sent.specs) == ("q", Consumer.BOTH, {"iops": "5"})


def test_qos_specs_without_a_consumer_leave_it_to_the_ledger() -> None:
    assert body.convert({"qos_specs": {"iops": "5"}}, type_bodies.UpdateQosSpecs).consumer is None


@pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": "  "}])
def test_new_qos_specs_need_a_name(name: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInput, match="missing required field name"):
        body.convert({"qos_specs": {"iops": "5", **name}}, type_bodies.CreateQosSpecs)


@pytest.mark.parametrize("body_type", [type_bodies.CreateQosSpecs, type_bodies.UpdateQosSpecs])
def test_an_unknown_consumer_is_refused_with_the_others(body_type: type[type_bodies.UpdateQosSpecs]) -> None:
    with pytest.raises(errors.InvalidInput, match=r"consumer is 'nobody': expected .*front-end"):
        body.convert({"qos_specs": {"name": "q", "consumer": "nobody"}}, body_type)


@pytest.mark.parametrize("action", sorted(type_bodies.TYPE_ACTIONS))
def test_an_action_on_access_names_a_project(action: str) -> None:
    assert body.convert({"project": "p"}, type_bodies.TYPE_ACTIONS[action]).project == "p"
    for arguments in ({}, {"project": ""}, {"project": None}):
        with pytest.raises(errors.InvalidInput, match="project"):
            body.convert(arguments, type_bodies.TYPE_ACTIONS[action])
