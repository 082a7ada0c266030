# SPDX-License-Identifier: Apache-2.0
"""Verdicts on decisions of Cinder's schedulers."""

import pytest

from tests.unit.extensions.cinder.watch.scenes import (
    BACKEND,
    OTHER,
    POOL,
    command,
    promised_by,
    report,
    request,
    rows,
    rules,
    volume,
)
from tonnage.extensions.cinder.decoding.cinder_messages import Request, UnjudgedRequest, Verb
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity
from tonnage.extensions.cinder.watch.verdicts import Decided, Judge, Verdict


class Scene:
    """Two pools of 100 GiB, and the judge of the decisions about them."""

    def __init__(self) -> None:
        self.promised = promised_by(report(1000, 0, pools=("a", "z")))
        self.judge = Judge(self.promised, rules())

    def placed(self, asked: Request, pool: str = POOL, now: float = 2.0) -> Decided:
        """Return the verdict on a request that Cinder places."""
        self.judge.request(asked, 1.0)
        decided = self.judge.command(command(asked.volume_id, asked.size_gb, pool, asked.verb), now)
        assert decided is not None
        return decided

    def refused(self, asked: Request) -> Decided:
        """Return the verdict on a request to create a volume that Cinder refuses."""
        self.judge.request(asked, 1.0)
        self.promised.apply_rows(rows(1001, volume(asked.volume_id, asked.size_gb, "error", 1000, None)))
        [decided] = self.judge.settle(self.promised.volumes, 2.0)
        return decided


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_pool_with_room_is_agreed(scene: Scene) -> None:
    decided = scene.placed(request("v", 10))
    assert (decided.verdict, decided.pool, decided.cinder_seconds) == (Verdict.AGREED, POOL, 1.0)
    assert decided.tonnage_seconds > 0


def test_a_full_pool_beside_one_with_room_is_another_pool(scene: Scene) -> None:
    scene.promised.promise(command("x", 95), now=1.0)
    decided = scene.placed(request("v", 10))
    assert (decided.verdict, decided.tonnage_pool) == (Verdict.OTHER_POOL, OTHER)
    assert "CapacityFilter refused" in decided.reason


def test_a_full_pool_is_a_wrong_placement_if_no_other_has_room(scene: Scene) -> None:
    scene.promised.promise(command("x", 95), now=1.0)
    scene.promised.promise(command("y", 95, OTHER), now=1.0)
    decided = scene.placed(request("v", 10))
    assert (decided.verdict, decided.tonnage_pool) == (Verdict.WRONG_PLACEMENT, None)


@pytest.mark.parametrize("provisioned", [0, None])
def test_room_that_depends_on_what_the_figures_contain_is_doubtful(provisioned: float | None) -> None:
    """The command was sent before the report, so its volume may be in it."""
    scene = Scene()
    scene.promised.apply_report(report(1010, provisioned, pools=("a", "z")), 5.0)
    for name in (POOL, OTHER):
        scene.promised.promise(command(f"x{name}", 95, name), now=6.0)
    scene.promised.apply_report(report(1020, provisioned, pools=("a", "z")), 7.0)
    decided = scene.placed(request("v", 10))
    assert decided.verdict is Verdict.DOUBTFUL
    assert "CapacityFilter refused 1" in decided.reason
    for name in (POOL, OTHER):
        scene.promised.promise(command(f"y{name}", 95, name), now=8.0)
    assert scene.placed(request("w", 10)).verdict is Verdict.WRONG_PLACEMENT


def test_room_that_a_report_on_demand_shows_makes_no_placement_wrong(scene: Scene) -> None:
    """Cinder decides by it, and the shadow does not know whether it is newer."""
    scene.promised.apply_report(report(1010, 100, pools=("a", "z")), 5.0)
    assert scene.placed(request("v", 10)).verdict is Verdict.WRONG_PLACEMENT
    scene.promised.apply_report(report(1012, 50, pools=("a", "z"), periodic=False), 6.0)
    assert scene.placed(request("w", 10)).verdict is Verdict.DOUBTFUL


def test_a_refusal_with_room_is_wrong(scene: Scene) -> None:
    decided = scene.refused(request("v", 10))
    assert (decided.verdict, decided.pool, decided.reason) == (Verdict.WRONG_REFUSAL, None, "")
    assert decided.tonnage_pool in (POOL, OTHER)


def test_a_report_on_demand_without_room_makes_no_refusal_wrong(scene: Scene) -> None:
    """Cinder decides by it, and the shadow does not know whether it is older."""
    scene.promised.apply_report(report(1012, 95, pools=("a", "z"), periodic=False), 0.0)
    assert scene.refused(request("v", 10)).verdict is Verdict.REFUSED


def test_a_refusal_without_room_is_that_of_both(scene: Scene) -> None:
    decided = scene.refused(request("v", 101))
    assert decided.verdict is Verdict.REFUSED
    assert "CapacityFilter refused 2" in decided.reason


def test_room_that_came_later_makes_no_refusal_wrong(scene: Scene) -> None:
    for name in (POOL, OTHER):
        scene.promised.promise(command(f"x{name}", 95, name))
    scene.judge.request(request("v", 10), 1.0)
    scene.promised.apply_report(report(1010, 0, pools=("a", "z")), 0.0)
    scene.promised.apply_rows(rows(1011, volume("v", 10, "error", 1000, None)))
    scene.promised.apply_report(report(1020, 0, pools=("a", "z")), 0.0)
    scene.promised.apply_report(report(1030, 0, pools=("a", "z")), 0.0)
    assert scene.promised.in_flight(POOL) == 0
    [decided] = scene.judge.settle(scene.promised.volumes, 2.0)
    assert decided.verdict is Verdict.REFUSED


def test_room_that_went_meanwhile_makes_no_refusal_wrong(scene: Scene) -> None:
    scene.judge.request(request("v", 60), 1.0)
    for name in (POOL, OTHER):
        scene.promised.promise(command(f"x{name}", 60, name))
    scene.promised.apply_rows(rows(1001, volume("v", 60, "error", 1000, None)))
    [decided] = scene.judge.settle(scene.promised.volumes, 2.0)
    assert decided.verdict is Verdict.REFUSED


def test_a_refusal_after_failures_names_the_pools(scene: Scene) -> None:
    decided = scene.refused(request("v", 10, attempted=frozenset([POOL])))
    assert (decided.verdict, decided.tonnage_pool, decided.reason) == (
        Verdict.WRONG_REFUSAL,
        OTHER,
        f"it failed before in {POOL}",
    )


def test_a_second_placement_in_a_pool_that_failed_is_another_pool(scene: Scene) -> None:
    decided = scene.placed(request("v", 10, attempted=frozenset([POOL])))
    assert (decided.verdict, decided.tonnage_pool) == (Verdict.OTHER_POOL, OTHER)


def test_an_extend_is_judged_in_its_pool(scene: Scene) -> None:
    grown = request("v", 10, verb=Verb.EXTEND, pool=POOL)
    assert scene.placed(grown).verdict is Verdict.AGREED
    scene.promised.promise(command("x", 95), now=1.0)
    assert scene.placed(grown).verdict is Verdict.WRONG_PLACEMENT


def test_the_refusal_of_an_extend_is_seen_in_the_status(scene: Scene) -> None:
    scene.judge.request(request("v", 10, verb=Verb.EXTEND, pool=POOL), 1.0)
    scene.promised.apply_rows(rows(1001, volume("v", 20, "extending", 900)))
    assert scene.judge.settle(scene.promised.volumes, 2.0) == []
    scene.promised.apply_rows(rows(1002, volume("v", 20, "available", 900)))
    [decided] = scene.judge.settle(scene.promised.volumes, 2.0)
    assert decided.verdict is Verdict.WRONG_REFUSAL


def test_rows_that_were_read_before_a_request_came_are_no_refusal_of_it(scene: Scene) -> None:
    """They show the volume before the request."""
    scene.judge.request(request("v", 10, verb=Verb.EXTEND, pool=POOL), 3.0)
    scene.promised.apply_rows(rows(1002, volume("v", 20, "available", 900)))
    assert scene.judge.settle(scene.promised.volumes, 2.0) == []


def test_a_migration_goes_to_the_pool_or_the_backend_that_it_names(scene: Scene) -> None:
    for target in (OTHER, BACKEND):
        moved = request("v", 10, verb=Verb.MIGRATE, pool=POOL, target=target)
        assert scene.placed(moved, OTHER).verdict is Verdict.AGREED


def test_a_volume_that_a_retype_leaves_in_its_full_pool_needs_no_room(scene: Scene) -> None:
    scene.promised.promise(command("x", 95), now=1.0)
    kept = request("v", 10, verb=Verb.RETYPE, pool=POOL)
    assert scene.placed(kept, POOL).verdict is Verdict.AGREED


def test_a_zone_without_pools_is_refused_by_both(scene: Scene) -> None:
    decided = scene.refused(request("v", 10, availability_zone="mars"))
    assert decided.verdict is Verdict.REFUSED
    assert "AvailabilityZoneFilter refused 2" in decided.reason


def test_affinity_follows_the_rows_of_the_hinted_volumes(scene: Scene) -> None:
    other = "11111111-1111-4111-8111-111111111111"
    asked = request("v", 10, hints={"same_host": [other]})
    decided = scene.placed(asked)
    assert (decided.verdict, decided.reason) == (
        Verdict.NOT_JUDGED,
        "a hint names a volume whose row is not known",
    )
    scene.promised.apply_rows(rows(1001, volume(other, 1, "available", 900, "else@where#p")))
    assert scene.placed(asked).verdict is Verdict.WRONG_PLACEMENT


def test_unknown_hints_are_not_judged(scene: Scene) -> None:
    decided = scene.placed(request("v", 10, hints={"local_to_instance": "i"}))
    assert (decided.verdict, decided.reason) == (
        Verdict.NOT_JUDGED,
        "the shadow does not know the hint local_to_instance",
    )


def test_a_pool_that_has_not_been_reported_is_not_judged(scene: Scene) -> None:
    decided = scene.placed(request("v", 10), "late@b#p")
    assert (decided.verdict, decided.reason) == (Verdict.NOT_JUDGED, "pool late@b#p has not been reported")


def test_nothing_is_judged_before_the_first_report() -> None:
    judge = Judge(PromisedCapacity(20.0, 60.0), rules())
    judge.request(request("v", 10), 1.0)
    decided = judge.command(command("v", 10), 2.0)
    assert decided is not None
    assert (decided.verdict, decided.reason) == (Verdict.NOT_JUDGED, "no backend has reported yet")


def test_requests_around_a_gap_are_not_judged(scene: Scene) -> None:
    """The command of a request that waits may be among the lost messages; the refusal of an extend looks the same."""
    scene.judge.request(request("v", 10), 1.0)
    [decided] = scene.judge.pause("messages were lost")
    assert (decided.volume_id, decided.verdict, decided.reason) == ("v", Verdict.NOT_JUDGED, "messages were lost")
    assert scene.judge.command(command("v", 10), 2.0) is None
    assert scene.placed(request("w", 10)).verdict is Verdict.NOT_JUDGED
    assert scene.refused(request("x", 10)).verdict is Verdict.NOT_JUDGED
    scene.judge.resume()
    assert scene.placed(request("y", 10)).verdict is Verdict.AGREED


def test_a_command_without_a_request_is_no_decision(scene: Scene) -> None:
    assert scene.judge.command(command("v", 10), 2.0) is None


def test_a_request_without_an_end_is_given_up(scene: Scene) -> None:
    scene.judge.request(request("v", 10), 1.0)
    assert scene.judge.settle({}, 900.0) == []
    [decided] = scene.judge.settle({}, 902.0)
    assert (decided.verdict, decided.reason) == (
        Verdict.NOT_JUDGED,
        "neither a command nor a refusal followed within 900 s",
    )


def test_a_snapshot_is_named_with_the_reason(scene: Scene) -> None:
    decided = scene.judge.unjudged(UnjudgedRequest(verb="create_snapshot", request_id="r", volume_id="v"))
    assert (decided.verb, decided.verdict, decided.reason) == (
        "create_snapshot",
        Verdict.NOT_JUDGED,
        "a snapshot: its driver decides how much room it takes",
    )
