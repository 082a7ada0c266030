# SPDX-License-Identifier: Apache-2.0
"""Keys of requests, and requests volume by volume."""

import datetime

import pytest

from tonnage.capacity import errors
from tonnage.ledger.claims.request_keys import Key
from tonnage.rpc import serialization
from tonnage.rpc.messages import (
    Answer,
    CreateGroup,
    CreateVolume,
    ExtendVolume,
    GroupAnswer,
    MigrateVolume,
    RetypeVolume,
)
from tonnage.scheduler.requests import placement_requests
from tonnage.scheduler.requests.placement_requests import Move, Retry, Work

ASKED = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
CREATE = CreateVolume(request_id="create", volume_id="a", size_gb=1, project_id="demo", asked_at=ASKED)
GROUP = CreateGroup(request_id="group", volumes=[CREATE, CREATE])
EXTEND = ExtendVolume(request_id="extend", volume_id="b", new_size_gb=2)
MOVE = Move(MigrateVolume(request_id="move", volume_id="c"))
DRAIN = Move(MigrateVolume(request_id="drain", volume_id="d"), keyed=False)
RETYPE = RetypeVolume(request_id="retype", volume_id="e", volume_type="gold", migration_policy="on-demand")  # type: ignore[arg-type]
RETRY = Retry("f")


@pytest.mark.parametrize(
    ("item", "key"),
    [
        (CREATE, ("create", "a", "create")),
        (GROUP, ("group", "a", "group")),
        (CreateGroup(request_id="empty", volumes=[]), ("empty", "", "group")),
        (EXTEND, ("extend", "b", "extend")),
        (MOVE, ("move", "c", "migrate")),
        (DRAIN, ("", "d", "migrate")),
        (RETYPE, ("retype", "e", "retype")),
        (RETRY, ("", "f", "create")),
    ],
)
def test_the_key_of_a_request_names_its_volume_and_verb(item: Work, key: tuple[str, str, str]) -> None:
    found = placement_requests.key_of(item)
    assert (found.request_id, found.volume_id, found.verb) == key


def test_work_that_no_client_waits_for_has_no_stored_answer() -> None:
    times = placement_requests.keys_of([CREATE, MOVE, DRAIN, RETYPE, RETRY])
    assert times == {"create": ASKED, "move": None, "retype": None}


def test_a_drain_is_a_move_that_nobody_has_requested() -> None:
    work: list[Work] = [CREATE, GROUP, EXTEND, MOVE, RETYPE, RETRY, DRAIN]
    assert [item for item in work if placement_requests.is_drain(item)] == [DRAIN]


def test_groups_and_retypes_are_requests_for_single_volumes() -> None:
    singles = placement_requests.by_volume([GROUP, RETYPE, RETRY, EXTEND])
    assert singles == [CREATE, CREATE, Move.for_type(RETYPE), RETRY, EXTEND]
    [move] = placement_requests.by_volume([RETYPE])
    assert isinstance(move, Move)
    assert (move.volume_type, move.keyed, move.message.request_id) == ("gold", False, "retype")


@pytest.mark.parametrize(
    ("item", "answer"), [(CREATE, Answer(volume_id="a", pool="h@b#p")), (GROUP, GroupAnswer(volumes=[]))]
)
def test_a_repeated_request_gets_its_first_answer(item: Work, answer: Answer | GroupAnswer) -> None:
    key = placement_requests.key_of(item)
    stored = Key(key.request_id, key.volume_id, key.verb, serialization.pack(answer))
    assert placement_requests.kept_answer(item, stored) == answer


def test_another_request_with_the_same_id_is_refused() -> None:
    with pytest.raises(errors.KeyReused):
        placement_requests.kept_answer(CREATE, Key("create", "another volume", "create"))
    with pytest.raises(errors.KeyReused):
        placement_requests.kept_answer(CREATE, Key("create", "a", "extend"))


def test_a_stored_error_refuses_the_repeated_request() -> None:
    stored = Key.of_error("create", "a", "create", errors.OverQuota("10 GiB of 10 are used"))
    with pytest.raises(errors.OverQuota, match="10 GiB of 10 are used"):
        placement_requests.kept_answer(CREATE, stored)
