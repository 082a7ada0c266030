# SPDX-License-Identifier: Apache-2.0
"""The ends of claims by the rows of Cinder's volumes."""

from dataclasses import dataclass, replace

import pytest

from tonnage.extensions.cinder.ledger.growths import GROW
from tonnage.extensions.cinder.ledger.observed_claims import GROUP, SNAPSHOT, OpenClaim, SeenEnd, SeenVolume
from tonnage.extensions.cinder.scheduler import claim_ends

A, B = "real@b1#a", "real@b2#b"
LEASE = 60.0


@dataclass
class Row:
    id: str = "v"
    pool: str | None = A
    size_gb: int = 3
    status: str = "available"
    migration_status: str = ""
    project_id: str = "project"
    group_id: str | None = None


def claim(verb: str = "create", **fields: object) -> OpenClaim:
    size = {"extend": 2}.get(verb, 3)
    target = {"extend": 5}.get(verb, 3)
    base: dict[str, object] = {
        "id": verb, "volume_id": "v", "pool": A, "verb": verb, "size_gb": size, "target_size_gb": target,
        "ended": False, "sent": True, "age": 1.0,
    }  # fmt: skip
    return OpenClaim(**{**base, **fields})  # type: ignore[arg-type]


def ends(claims: list[OpenClaim], *rows: Row) -> list[tuple[str, bool, bool]]:
    judgement = claim_ends.judge(claims, rows, LEASE)
    return [(end.claim_id, end.kept, end.deleted) for end in judgement.ends]


@pytest.mark.parametrize("status", ["available", "in-use", "attaching", "uploading", "restoring-backup"])
def test_a_volume_that_is_there_ends_its_claim(status: str) -> None:
    assert ends([claim()], Row(status=status)) == [("create", True, False)]


@pytest.mark.parametrize(
    "status", ["creating", "downloading", "extending", "deleting", "error", "error_extending", "error_deleting"]
)
def test_a_volume_in_hand_or_in_error_ends_no_claim(status: str) -> None:
    assert claim_ends.judge([claim()], [Row(status=status)], LEASE) == ([], [])


def test_a_volume_without_a_row_ends_all_its_claims() -> None:
    mine = [claim(ended=True), claim("extend")]
    assert ends(mine) == [("create", False, True), ("extend", False, True)]


@pytest.mark.parametrize("pool", [None, B])
def test_a_volume_that_waits_for_another_pool_or_is_there_ends_its_claim(pool: str | None) -> None:
    assert ("create", False, False) in ends([claim()], Row(pool=pool, status="creating"))


@pytest.mark.parametrize(("age", "given_up"), [(LEASE - 1, False), (LEASE, True)])
def test_a_claim_that_is_not_sent_is_given_up_after_its_lease(age: float, given_up: bool) -> None:
    mine = [claim(sent=False, age=age)]
    judgement = claim_ends.judge(mine, [Row(pool=None, status="creating")], LEASE)
    assert judgement.ends == ([SeenEnd("create", False, kept=False)] if given_up else [])


def test_an_extend_ends_with_its_size_or_without() -> None:
    mine = [claim(ended=True), claim("extend")]
    assert ends(mine, Row(size_gb=3, status="extending")) == []
    assert ends(mine, Row(size_gb=5)) == [("extend", True, False)]
    assert ends(mine, Row(size_gb=3)) == [("extend", False, False)]


@pytest.mark.parametrize("migration_status", ["starting", "migrating", "completing"])
def test_a_migration_holds_both_pools_until_it_ends(migration_status: str) -> None:
    mine = [claim(ended=True), claim("migrate", pool=B)]
    assert ends(mine, Row(migration_status=migration_status)) == []
    assert ends(mine, Row(pool=B, migration_status="success")) == [("create", False, False), ("migrate", True, False)]
    assert ends(mine, Row(migration_status="error")) == [("migrate", False, False)]


def test_the_row_of_a_migration_target_counts_instead_of_the_claim() -> None:
    mine = [claim(ended=True), claim("migrate", pool=B)]
    target = Row(id="t", pool=B, status="creating", migration_status="target:v")
    judgement = claim_ends.judge(mine, [Row(migration_status="migrating"), target], LEASE)
    assert judgement.ends == [SeenEnd("migrate", True, kept=False)]
    assert judgement.unclaimed == [SeenVolume(volume_id="t", pool=B, size_gb=3, ended=False)]


@pytest.mark.parametrize(
    "row",
    [
        Row(status="extending"),
        Row(status="extending", migration_status="migrating"),
        Row(pool=B, migration_status=""),  # for a moment, while rows are swapped
        Row(pool=B, status="extending", migration_status="success"),
        Row(pool=B, size_gb=5, migration_status="success"),
    ],
    ids=str,
)
@pytest.mark.parametrize("sent", [True, False])
def test_the_claim_of_a_volume_that_moves_to_grow_is_not_ended_by_its_row(row: Row, sent: bool) -> None:
    growing = claim(GROW, pool=B, size_gb=5, target_size_gb=5, sent=sent, age=LEASE)
    judgement = claim_ends.judge([growing], [row], LEASE)
    assert judgement.ends == []
    assert [volume.pool for volume in judgement.unclaimed] == ([A] if row.pool == A else [])


def test_the_claim_of_a_volume_that_moves_to_grow_counts_for_its_copy() -> None:
    mine = [claim(ended=True), claim(GROW, pool=B, size_gb=5, target_size_gb=5)]
    copy = Row(id="t", pool=B, status="creating", migration_status="target:v")
    row = Row(status="extending", migration_status="migrating")
    assert claim_ends.judge(mine, [row, copy], LEASE) == ([], [])
    assert [volume.volume_id for volume in claim_ends.judge(mine[:1], [row, copy], LEASE).unclaimed] == ["t"]
    elsewhere = replace(copy, pool="real@b3#c")
    assert [volume.volume_id for volume in claim_ends.judge(mine, [row, elsewhere], LEASE).unclaimed] == ["t"]


def test_a_volume_that_is_deleted_while_it_moves_to_grow_ends_its_claims() -> None:
    assert ends([claim(GROW, pool=B)]) == [(GROW, False, True)]


def test_a_retype_holds_both_pools() -> None:
    mine = [claim(ended=True), claim("migrate", pool=B)]
    assert ends(mine, Row(status="retyping")) == []


def test_a_retype_within_its_pool_is_decided_until_it_ends() -> None:
    mine = [claim(ended=True), claim("migrate", size_gb=0)]
    assert ends(mine, Row(status="retyping")) == []
    for status in ("available", "in-use"):
        assert ends(mine, Row(status=status)) == [("migrate", False, False)]


@pytest.mark.parametrize(("status", "ended"), [("available", True), ("creating", False), ("error", False)])
def test_a_row_without_a_claim_is_found(status: str, ended: bool) -> None:
    judgement = claim_ends.judge([], [Row(status=status)], LEASE)
    assert judgement == ([], [SeenVolume(volume_id="v", pool=A, size_gb=3, ended=ended)])


def test_a_row_that_is_larger_than_its_claims_is_found() -> None:
    judgement = claim_ends.judge([claim(ended=True)], [Row(size_gb=4)], LEASE)
    assert judgement == ([], [SeenVolume(volume_id="v", pool=A, size_gb=4, ended=True)])


def test_a_volume_that_has_become_smaller_is_claimed_anew() -> None:
    judgement = claim_ends.judge([claim(ended=True)], [Row(size_gb=2)], LEASE)
    assert judgement.ends == [SeenEnd("create", True, kept=False)]
    assert [volume.size_gb for volume in judgement.unclaimed] == [2]


def test_a_volume_without_a_host_is_not_found() -> None:
    assert claim_ends.judge([], [Row(pool=None, status="error")], LEASE) == ([], [])


def test_the_claim_of_a_snapshot_ends_when_it_is_made() -> None:
    mine = [claim(SNAPSHOT, volume_id="s")]
    assert claim_ends.judge(mine, [], LEASE, {"s"}) == ([], [])
    assert claim_ends.judge(mine, [], LEASE, ()).ends == [SeenEnd(SNAPSHOT, True, kept=False)]


def member(name: str, pool: str | None) -> Row:
    return Row(id=name, pool=pool, status="creating", group_id="g")


@pytest.mark.parametrize("pools", [[None, None], [A, None]])
def test_the_claim_of_a_group_holds_until_all_its_volumes_have_hosts(pools: list[str | None]) -> None:
    mine = [claim(GROUP, volume_id="g", sent=False, age=LEASE)]
    rows = [member(str(number), pool) for number, pool in enumerate(pools)]
    assert claim_ends.judge(mine, rows, LEASE).ends == []


def test_the_volumes_of_a_group_count_instead_of_its_claim() -> None:
    mine = [claim(GROUP, volume_id="g", size_gb=6, sent=False)]
    judgement = claim_ends.judge(mine, [member("v", A), member("w", A), Row(id="other")], LEASE)
    assert judgement.ends == [SeenEnd(GROUP, False, kept=False)]
    assert [volume.volume_id for volume in judgement.unclaimed] == ["v", "w", "other"]


@pytest.mark.parametrize(("age", "given_up"), [(LEASE - 1, False), (LEASE, True)])
def test_the_claim_of_a_group_without_volumes_is_given_up_after_its_lease(age: float, given_up: bool) -> None:
    mine = [claim(GROUP, volume_id="g", sent=False, age=age)]
    judgement = claim_ends.judge(mine, [Row(id="other", group_id="h")], LEASE)
    assert judgement.ends == ([SeenEnd(GROUP, False, kept=False)] if given_up else [])
