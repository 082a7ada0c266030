# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests for volumes."""

from typing import Any

import pytest

from tonnage.api.http import body
from tonnage.api.schemas import volume_bodies
from tonnage.api.schemas.volume_bodies import UNSUPPORTED_ACTIONS, VOLUME_ACTIONS, NewVolume
from tonnage.capacity import errors


def new_volume(**sent: Any) -> NewVolume:
    return body.convert({"volume": sent}, volume_bodies.CreateVolume).volume


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({}, "missing required field size"),
        ({"source_volid": ""}, "missing required field size"),
        ({"size": None}, "size is null: expected a whole number of GiB from 1 to"),
        ({"size": 1, "multiattach": "yes"}, "multiattach is true"),
        ({"size": 1, "multiattach": "perhaps"}, "multiattach is neither true nor false"),
        ({"size": 1, "imageRef": "x"}, "imageRef is set, and a volume from an image is not supported"),
        ({"size": 1, "backup_id": "x"}, "backup_id is set"),
        ({"size": 1, "metadata": {"": "x"}}, "metadata"),
        ({"size": 1, "colour": "red"}, "unknown field colour"),
    ],
)
def test_a_volume_that_tonnage_cannot_make_is_refused(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        new_volume(**sent)


def test_a_snapshot_is_not_found_as_there_are_none() -> None:
    with pytest.raises(errors.NotFound, match="Snapshot x could not be found"):
        new_volume(size=1, snapshot_id="x")
    assert new_volume(size=1, snapshot_id="").snapshot_id == ""


def test_a_clone_needs_no_size() -> None:
    for sent in ({}, {"size": None}):
        assert new_volume(source_volid="v", **sent).content({})["size"] is None
    assert new_volume(source_volid="v", size="2").content({})["size"] == 2


def test_bodies_that_say_the_same_in_other_words_have_the_same_content() -> None:
    """The key of a repeated request is compared with the content."""
    first = new_volume(size="2", name="n", description="d", scheduler_hints={"a": "b"})
    second = new_volume(
        size=2.0,
        display_name=" n ",
        display_description="d",
        volume_type="",
        metadata={},
        availability_zone=None,
        **{"OS-SCH-HNT:scheduler_hints": {"a": "b"}},
    )
    assert first.content({}) == second.content({}) == new_volume(size=2, name="n", description="d").content({"a": "b"})
    assert first.content({}) != first.content({"c": "d"})


def test_the_hint_of_a_volume_takes_precedence_over_those_beside_it() -> None:
    sent = new_volume(size=1, scheduler_hints={"a": "1", "b": "1"}, **{"OS-SCH-HNT:scheduler_hints": {"b": "2"}})
    assert sent.all_hints() == {"a": "1", "b": "2"}
    assert sent.content({"a": "0", "c": "0"})["hints"] == {"a": "1", "b": "2", "c": "0"}


def test_a_new_name_precedes_an_old_one_and_an_empty_one_stays() -> None:
    assert new_volume(size=1, name="new", display_name="old").name == "new"
    changes = body.convert({"volume": {"name": "", "display_name": "old"}}, volume_bodies.UpdateVolume).volume
    assert (changes.name, changes.description) == ("", None)


def test_unknown_keys_of_a_volume_are_ignored_in_tolerant_bodies_alone() -> None:
    sent = {"volume": {"size": 1, "colour": "red"}}
    assert body.convert(sent, volume_bodies.TolerantCreateVolume).volume.size == 1
    with pytest.raises(errors.InvalidInput, match="unknown field beside"):
        body.convert(sent | {"beside": 1}, volume_bodies.TolerantCreateVolume)


@pytest.mark.parametrize("number", [0, volume_bodies.MAX_AT_ONCE + 1])
def test_the_number_of_volumes_at_once_is_bounded(number: int) -> None:
    most = [{"size": 1}] * volume_bodies.MAX_AT_ONCE
    assert len(body.convert({"volumes": most}, volume_bodies.CreateVolumes).volumes) == volume_bodies.MAX_AT_ONCE
    with pytest.raises(errors.InvalidInput, match="expected array of length"):
        body.convert({"volumes": [{"size": 1}] * number}, volume_bodies.CreateVolumes)


@pytest.mark.parametrize("ref", ["lun 7", {"source-name": "lun 7"}, {"source-name": "lun 7", "source-id": "x"}])
def test_a_volume_to_manage_is_named_by_text_or_by_an_object(ref: Any) -> None:
    assert body.convert({"volume": {"host": "h@b#p", "ref": ref}}, volume_bodies.Manage).volume.ref == "lun 7"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"ref": ""}, "ref names nothing"),
        ({"ref": {"source-name": 7}}, "ref names nothing"),
        ({"ref": {"source-name": "n" * 256}}, "the name 1 to 255 characters long"),
        ({"ref": "r", "bootable": True}, "bootable is true"),
        ({"ref": "r", "cluster": "c"}, "cluster is set"),
    ],
)
def test_other_volumes_to_manage_are_refused(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        body.convert({"volume": {"host": "h@b#p", **sent}}, volume_bodies.Manage)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({}, "expected at least one of status, attach_status, migration_status"),
        ({"status": ""}, "expected at least one of"),
        ({"status": "error", "attach_status": "attached"}, "attach_status is 'attached': expected detached"),
        ({"migration_status": "migrating"}, "migration_status is 'migrating': expected none"),
    ],
)
def test_a_status_that_cannot_be_set_is_refused(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        body.convert(sent, volume_bodies.ResetStatus)


def test_words_of_a_reset_may_be_in_upper_case() -> None:
    sent = body.convert({"attach_status": "Detached", "migration_status": "NONE"}, volume_bodies.ResetStatus)
    assert sent.status is None


@pytest.mark.parametrize("policy", ["never", "on-demand", None])
def test_a_retype_has_a_policy_of_migration_or_none(policy: str | None) -> None:
    sent = body.convert({"new_type": "t", "migration_policy": policy}, volume_bodies.Retype)
    assert sent.migration_policy == policy
    with pytest.raises(errors.InvalidInput, match="migration_policy is '': expected never or on-demand"):
        body.convert({"new_type": "t", "migration_policy": ""}, volume_bodies.Retype)


def test_unsupported_actions_take_any_arguments_so_that_the_answer_is_501() -> None:
    assert UNSUPPORTED_ACTIONS.keys() < VOLUME_ACTIONS.keys()
    for name in UNSUPPORTED_ACTIONS:
        assert body.convert({"any": [1]}, VOLUME_ACTIONS[name]) == {"any": [1]}
