# SPDX-License-Identifier: Apache-2.0
"""Queues, records and threads of a backend's commands."""

import queue
import time
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import command, eventually
from tonnage.agent.backoff import BackOff
from tonnage.agent.operations import Epoch, Operations
from tonnage.capacity import errors
from tonnage.rpc.messages import REPORT_STEP, Command, Outcome, Source, Verb


class Ends(queue.Queue[Outcome]):
    """Outcomes in the order in which they were told."""

    def next(self) -> Outcome:
        return self.get(timeout=fakes.DEADLINE)

    def in_order(self, number: int) -> list[Outcome]:
        """Return the next ones in the order in which they ended, which is not always that in which they are told."""
        return sorted((self.next() for _ in range(number)), key=lambda outcome: outcome.end_tick)


def perform(operations: Operations, ends: Ends, one: Command) -> Outcome:
    """Have a command run and return the next outcome that is told."""
    operations.submit(one)
    return ends.next()


SHORT, LONG = BackOff(0.01, 0.05), BackOff(600.0, 600.0)


@pytest.fixture
def driver() -> fakes.GatedDriver:
    """A driver that also copies volumes and takes them over."""
    return fakes.CapableDriver()


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def crashes() -> list[BaseException]:
    return []


@pytest.fixture
def make(driver: fakes.GatedDriver, ends: Ends, crashes: list[BaseException]) -> Iterator[Callable[..., Operations]]:
    made = []

    def make(
        threads: int = 4,
        record_seconds: float = 600.0,
        ended: Callable[[Outcome], None] = ends.put,
        clock: Callable[[], float] = time.monotonic,
        backoff: BackOff = SHORT,
    ) -> Operations:
        operations = Operations(driver, threads, record_seconds, fakes.Owner(ended, crashes.append), clock, backoff)
        operations.begin_epoch(Epoch(1))
        operations.resume()
        made.append(operations)
        return operations

    yield make
    for operations in made:
        operations.close()
        assert operations.wait_idle(fakes.DEADLINE)


def test_operations_on_one_volume_run_in_the_order_of_arrival_and_one_at_a_time(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make()
    open_create = driver.close_gate("create v")
    operations.submit(command("c0", "v"))
    driver.await_entry("create v")
    for number in range(1, 20):
        operations.submit(command(f"c{number}", "v", Verb.EXTEND, size_gb=2 + number))
    assert driver.running == 1
    open_create()
    outcomes = ends.in_order(20)
    assert [outcome.claim_id for outcome in outcomes] == [f"c{number}" for number in range(20)]
    assert len({outcome.end_tick for outcome in outcomes}) == 20
    assert driver.most_running == 1
    assert driver.volumes == {"v": 21}


def test_different_volumes_run_side_by_side_up_to_the_limit(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make(threads=3)
    open_create = driver.close_gate("create")
    for number in range(10):
        operations.submit(command(f"c{number}", f"v{number}"))
    for _ in range(3):
        driver.await_entry("create")
    assert driver.running == 3
    assert len(operations.in_hand()) == 10
    open_create()
    assert {ends.next().claim_id for _ in range(10)} == {f"c{number}" for number in range(10)}
    assert driver.most_running == 3
    eventually(lambda: operations.in_hand() == [])


def test_a_volume_that_waits_does_not_hold_up_others(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make(threads=2)
    open_create = driver.close_gate("create slow")
    for number in range(5):
        operations.submit(command(f"s{number}", "slow", Verb.EXTEND if number else Verb.CREATE))
    driver.await_entry("create slow")
    assert perform(operations, ends, command("quick", "other")).claim_id == "quick"
    open_create()
    assert [outcome.claim_id for outcome in ends.in_order(5)] == [f"s{number}" for number in range(5)]


def test_nothing_begins_while_held(make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends) -> None:
    operations = make()
    open_create = driver.close_gate("create a")
    operations.submit(command("c1", "a"))
    operations.submit(command("c2", "a", Verb.DELETE))
    driver.await_entry("create a")
    operations.suspend()
    assert not operations.wait_idle(0.01)
    open_create()
    assert operations.wait_idle(fakes.DEADLINE)
    operations.submit(command("c3", "b"))
    assert operations.in_hand() == ["c2", "c3"]
    assert driver.calls == ["create a"]
    operations.resume()
    assert {ends.next().claim_id for _ in range(3)} == {"c1", "c2", "c3"}


THERE = Source(volume_id="v", pool="other@far#gold", size_gb=2)


@pytest.mark.parametrize("removing", [Verb.DELETE, Verb.PURGE])
@pytest.mark.parametrize("making", [Verb.CREATE, Verb.MIGRATE, Verb.MANAGE, Verb.EXTEND])
def test_what_comes_after_its_delete_makes_nothing(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends, removing: Verb, making: Verb
) -> None:
    operations = make()
    assert perform(operations, ends, command("d", "v", removing)).ok
    outcome = perform(operations, ends, command("c", "v", making, source=THERE, reference="lun"))
    assert (outcome.ok, outcome.clean, outcome.size_gb) == (False, True, 0.0)
    assert outcome.message == "volume v has been deleted from pool host@backend#pool"
    assert driver.volumes == {}
    assert [one.claim_id for one in operations.unacknowledged()] == ["d", "c"]


@pytest.mark.parametrize("removing", [Verb.DELETE, Verb.PURGE])
def test_a_copy_in_another_pool_is_not_affected_by_a_delete(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends, removing: Verb
) -> None:
    operations = make()
    assert perform(operations, ends, command("d", "v", removing, pool="left")).ok
    assert perform(operations, ends, command("m", "v", Verb.MIGRATE, source=THERE)).ok
    assert not perform(operations, ends, command("late", "v", Verb.MIGRATE, source=THERE, pool="left")).ok


def test_a_volume_whose_copy_was_purged_may_come_back_by_another_request(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make()
    assert perform(operations, ends, command("p", "v", Verb.PURGE, request_id="req-there")).ok
    assert not perform(operations, ends, command("late", "v", Verb.MIGRATE, source=THERE, request_id="req-there")).ok
    assert perform(operations, ends, command("m", "v", Verb.MIGRATE, source=THERE, request_id="req-back")).ok
    assert perform(operations, ends, command("e", "v", Verb.EXTEND, size_gb=4, request_id="req-grow")).ok


def test_a_purge_of_no_request_goes_for_all_of_them(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make()
    assert perform(operations, ends, command("p", "v", Verb.PURGE, request_id="")).ok
    assert not perform(operations, ends, command("m", "v", Verb.MIGRATE, source=THERE, request_id="req-other")).ok


def test_copies_of_a_volume_in_two_pools_are_worked_on_in_order(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make()
    open_create = driver.close_gate("migrate v")
    operations.submit(command("m", "v", Verb.MIGRATE, source=THERE, pool="new"))
    driver.await_entry("migrate v")
    operations.submit(command("p", "v", Verb.PURGE, pool="old"))
    assert driver.running == 1
    assert operations.in_hand() == ["m", "p"]
    open_create()
    assert [outcome.claim_id for outcome in ends.in_order(2)] == ["m", "p"]
    assert driver.most_running == 1


def test_one_delete_that_fails_does_not_undo_another(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make()
    assert perform(operations, ends, command("d1", "v", Verb.DELETE)).ok
    driver.failures["delete"] = [errors.DriverError("array busy")]
    assert not perform(operations, ends, command("d2", "v", Verb.DELETE)).ok
    assert not perform(operations, ends, command("c", "v")).ok
    assert driver.volumes == {}


def test_a_delete_counts_until_its_record_is_dropped(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    now = 1000.0
    operations = make(record_seconds=600, clock=lambda: now)
    for claim in ("p1", "p2"):
        perform(operations, ends, command(claim, "v", Verb.PURGE))
        operations.acknowledge(claim)
        now += 400
    operations.acknowledge("other")  # drops the first record
    assert not perform(operations, ends, command("late", "v")).ok
    now += 400
    operations.acknowledge("other")
    assert perform(operations, ends, command("new", "v")).ok


def test_after_a_delete_that_failed_the_volume_can_be_worked_on(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make()
    driver.volumes["v"] = 2
    driver.failures["delete"] = [errors.DriverError("array busy")]
    outcome = perform(operations, ends, command("d", "v", Verb.DELETE))
    assert (outcome.ok, outcome.size_gb, outcome.message) == (False, 2, "array busy")
    assert perform(operations, ends, command("e", "v", Verb.EXTEND, size_gb=4)).ok


def test_records_outlive_their_acknowledgement_for_a_while(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    now = 1000.0
    operations = make(record_seconds=600, clock=lambda: now)
    for claim in ("old", "young", "never acknowledged"):
        perform(operations, ends, command(claim, claim))
    operations.acknowledge("old")
    now += 500
    operations.acknowledge("young")
    assert set(operations._records) == {"old", "young", "never acknowledged"}
    now += 101
    operations.acknowledge("young")
    assert set(operations._records) == {"young", "never acknowledged"}
    assert perform(operations, ends, command("young", "young")).claim_id == "young"
    assert driver.calls.count("create young") == 1


@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.EXTEND, Verb.DELETE, Verb.PURGE])
def test_an_operation_without_a_known_outcome_is_repeated_until_it_has_one(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends, verb: Verb
) -> None:
    operations = make()
    driver.volumes["v"] = 1
    method = "delete" if verb is Verb.PURGE else verb.value
    # Also a failure before the storage gets the call says nothing about the first call.
    later = [errors.DriverError("the storage is away")] if verb in (Verb.CREATE, Verb.EXTEND) else []
    driver.failures[method] = [errors.OutcomeUnknown("no answer"), errors.OutcomeUnknown("no answer"), *later]
    unknown = perform(operations, ends, command("c", "v", verb))
    assert (unknown.ok, unknown.unknown, unknown.size_gb, unknown.clean) == (False, True, 2.0, False)
    assert unknown.message == "no answer; its outcome is not known yet, and the agent repeats it"
    known = ends.next()
    assert (known.claim_id, known.ok, known.unknown) == ("c", True, False)
    assert known.end_tick > unknown.end_tick
    assert driver.calls.count(f"{method} v") == 3 + len(later)
    assert operations.unacknowledged() == [known]


def test_an_extend_that_an_earlier_process_may_have_run_stays_unknown(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    """The list fails at the first look after a restart, and shows the size before at the next one."""
    operations = make()
    driver.volumes["v"] = 2
    driver.failures["list"] = [errors.DriverError("the storage is away")]
    unknown = perform(operations, ends, command("c", "v", Verb.EXTEND, size_gb=4, sent_before=True))
    assert (unknown.ok, unknown.unknown, unknown.size_gb) == (False, True, 4)
    known = ends.next()
    assert (known.claim_id, known.ok, known.unknown, known.size_gb) == ("c", True, False, 4)
    # The first time that a command is sent, no earlier process has run it: a failure of the driver is one.
    for claim_id, method, clean in (("d", "list", True), ("e", "extend", False)):
        driver.failures[method] = [errors.DriverError("the storage is away")]
        failed = perform(operations, ends, command(claim_id, "v", Verb.EXTEND, size_gb=6))
        assert (failed.ok, failed.unknown, failed.size_gb, failed.clean) == (False, False, 0 if clean else 4, clean)


def test_an_operation_without_a_known_outcome_stays_in_hand(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make(backoff=LONG)
    driver.failures["create"] = [errors.OutcomeUnknown("no answer")]
    assert perform(operations, ends, command("c", "v")).unknown
    assert operations.in_hand() == ["c"]
    assert operations.unacknowledged() == []
    operations.submit(command("c", "v"))
    operations.resume()
    # It keeps neither reports nor other volumes from their work, and rests until its time.
    assert operations.wait_idle(0)
    assert perform(operations, ends, command("other", "w")).ok
    assert driver.calls == ["create v", "create w"]


@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.EXTEND])
@pytest.mark.parametrize("rests", [True, False])
def test_a_delete_takes_the_place_of_an_operation_without_a_known_outcome(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends, verb: Verb, rests: bool
) -> None:
    operations = make(backoff=LONG)
    driver.volumes["v"] = 1
    driver.failures[verb.value] = [errors.OutcomeUnknown("no answer")]
    if rests:
        assert perform(operations, ends, command("c", "v", verb)).unknown
        operations.submit(command("d", "v", Verb.DELETE))
    else:
        open_gate = driver.close_gate(verb.value)
        operations.submit(command("c", "v", verb))
        driver.await_entry(verb.value)
        operations.submit(command("d", "v", Verb.DELETE))
        open_gate()
    abandoned, deleted = ends.in_order(2)
    # The volume counts until it is deleted.
    assert (abandoned.claim_id, abandoned.ok, abandoned.unknown, abandoned.size_gb) == ("c", False, False, 2.0)
    assert (deleted.claim_id, deleted.ok) == ("d", True)
    assert driver.volumes == {}
    assert operations.in_hand() == []


def test_a_create_of_an_earlier_process_counts_until_a_delete_has_ended(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make(backoff=LONG)
    driver.failures["delete"] = [errors.OutcomeUnknown("no answer")]
    assert perform(operations, ends, command("d", "v", Verb.DELETE)).unknown
    late = perform(operations, ends, command("c", "v"))
    assert (late.ok, late.unknown, late.size_gb, late.clean) == (False, False, 2.0, False)


def test_a_new_epoch_forgets_operations_without_a_known_outcome(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    operations = make(backoff=LONG)
    driver.failures["create"] = [errors.OutcomeUnknown("no answer")]
    assert perform(operations, ends, command("c", "v")).unknown
    operations.suspend()
    operations.begin_epoch(Epoch(2))
    operations.resume()
    assert operations.in_hand() == []
    assert perform(operations, ends, command("c", "v", epoch=2)).ok


def test_a_worker_that_fails_is_told_of(
    make: Callable[..., Operations], crashes: list[BaseException], driver: fakes.GatedDriver
) -> None:
    def ended(outcome: Outcome) -> None:
        raise LookupError("bad outbox")

    make(ended=ended).submit(command("c", "v"))
    assert isinstance(eventually(lambda: crashes)[0], LookupError)


def test_operations_are_brief_until_one_has_taken_long(
    make: Callable[..., Operations], driver: fakes.GatedDriver, ends: Ends
) -> None:
    now = 1000.0
    operations = make(clock=lambda: now)
    assert operations.end_within(0.0)
    perform(operations, ends, command("c1", "v1"))
    open_create = driver.close_gate("create v2")
    operations.submit(command("c2", "v2"))
    driver.await_entry("create v2")
    now += 0.3
    # While it runs and after that, until enough others have been faster.
    assert not operations.end_within(0.2)
    assert operations.end_within(0.4)
    open_create()
    ends.next()
    for number in range(32):
        assert not operations.end_within(0.2)
        perform(operations, ends, command(f"d{number}", f"w{number}"))
    assert operations.end_within(0.2)


def test_ticks_are_given_once_and_reports_take_them_too() -> None:
    epoch = Epoch(3)
    assert epoch.number == 3
    assert [epoch.tick(), epoch.begin_report()] == [1, (REPORT_STEP, 2)]
    assert [epoch.tick(), epoch.begin_report()] == [3, (2 * REPORT_STEP, 4)]


def test_many_threads_never_get_the_same_tick_and_later_reports_cover_more() -> None:
    epoch = Epoch(1)

    def take(_: int) -> tuple[list[int], list[tuple[int, int]]]:
        return [epoch.tick() for _ in range(200)], [epoch.begin_report() for _ in range(200)]

    with futures.ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(take, range(8)))
    ticks = [tick for alone, _ in taken for tick in alone]
    reports = sorted(report for _, made in taken for report in made)
    covers = [cover for _, cover in reports]
    assert covers == sorted(covers)
    assert sorted(ticks + covers) == list(range(1, 3201))
