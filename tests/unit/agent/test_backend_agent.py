# SPDX-License-Identifier: Apache-2.0
"""One backend's agent, with real messages in between: order, fencing, and that nothing is lost."""

import asyncio
import dataclasses
import itertools
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import command, eventually
from tonnage.agent.backend_agent import BackendAgent
from tonnage.agent.backoff import gap_after
from tonnage.capacity import errors
from tonnage.rpc import contract, messages, serialization
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.contract import Answer, Message, Method
from tonnage.rpc.messages import REPORT_STEP, NoticeCode, Verb
from tonnage.rpc.scheduler_server import SchedulerServer
from tonnage.rpc.transport import Peer, Transport

Make = Callable[..., BackendAgent]
BACKEND = "host@backend"


def one_runs_one_waits(agent: BackendAgent, driver: fakes.GatedDriver, client: fakes.Calls) -> Callable[[], None]:
    """Have c1 create v1 and stop at a gate, with c2, an extend to 5 GiB, behind it; return what opens the gate."""
    open_create = driver.close_gate("create v1")
    client.run(BACKEND, [command("c1", "v1")])
    client.run(BACKEND, [command("c2", "v1", Verb.EXTEND, size_gb=5)])
    driver.await_entry("create v1")
    eventually(lambda: len(agent.operations.in_hand()) == 2)
    return open_create


# Joining


def test_it_sends_a_hello_then_a_listing_then_reports(agent: BackendAgent, scheduler: fakes.Scheduler) -> None:
    hello = scheduler.hellos[0]
    assert (hello.backend, hello.availability_zone, hello.driver) == (BACKEND, "nova", "gated")
    listing, report = scheduler.listings[0], scheduler.reports[0]
    assert (listing.epoch, listing.volumes, listing.in_hand) == (1, [], [])
    assert (report.backend, report.epoch, report.seq) == (BACKEND, 1, REPORT_STEP)
    assert report.covers > listing.tick
    assert listing.audit_snapshots == []
    agent.list_now()
    [snapshot] = eventually(lambda: scheduler.listings[1:])[0].audit_snapshots
    assert (snapshot.figures["provisioned_capacity_gb"], snapshot.least_gb, snapshot.all_gb) == (0, 0, 0)
    eventually(lambda: scheduler.reports[1:], "what was reported for the list may have been news")
    assert report.pools[0]["pool_name"] == "pool"
    assert report.age >= 0


def test_it_lists_its_volumes(make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver) -> None:
    driver.volumes = {"a": 1.5, "b": 3}
    make().start()
    volumes = eventually(lambda: scheduler.listings)[0].volumes
    assert [(volume.volume_id, volume.pool, volume.size_gb) for volume in volumes] == [
        ("a", "pool", 1.5),
        ("b", "pool", 3),
    ]


def test_it_repeats_the_same_hello_until_a_scheduler_answers(
    make: Make, bus: Transport, scheduler: fakes.Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.failures["hello"] = [fakes.TROUBLE] * 5
    make().start()
    eventually(lambda: scheduler.reports)
    assert len(scheduler.hellos) == 6
    assert len({hello.nonce for hello in scheduler.hellos}) == 1
    complaints = [record.message for record in caplog.records if "cannot join yet" in record.message]
    trouble = "tonnage-scheduler: the database is away"
    assert complaints == [f"Backend {BACKEND} cannot join yet and keeps trying: {trouble}"]


def test_it_joins_when_a_busy_scheduler_has_time(
    make: Make, scheduler: fakes.Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for method, times in (("hello", 3), ("listing", 2)):
        scheduler.failures[method] = [errors.Busy("the scheduler is busy with other backends", 0.01)] * times
    make().start()
    eventually(lambda: scheduler.reports)
    assert (scheduler.failures["hello"], scheduler.failures["listing"]) == ([], [])
    about_joining = [(record.levelname, record.message) for record in caplog.records if "join" in record.message]
    assert about_joining == [
        (
            "INFO",
            f"Backend {BACKEND} waits to join: the scheduler is busy with other backends; it tries in 0.01 s",
        ),
        ("INFO", f"Backend {BACKEND} has joined"),
    ]
    assert [notice for notice in scheduler.notices if notice.code is NoticeCode.FAILING] == []


def test_it_waits_longer_for_each_hello_without_an_answer(
    make: Make, scheduler: fakes.Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = errors.NoAnswer("no scheduler answered hello")
    busy, trouble = errors.Busy("the scheduler is busy", 0.01), errors.DatabaseUnreachable("the database is away")
    failures = [busy, silence, trouble, silence, busy, silence, silence]
    timeouts: list[float | None] = []
    call = SchedulerClient.call

    def recorded(client: SchedulerClient, method: Method[Message, Answer], message: Message) -> Answer:
        if method.name == contract.HELLO.name:
            timeouts.append(method.timeout)
            if failures:
                raise failures.pop(0)
        return call(client, method, message)

    monkeypatch.setattr(contract, "HELLO", dataclasses.replace(contract.HELLO, timeout=7.0))
    monkeypatch.setattr(SchedulerClient, "call", recorded)
    agent = make()
    agent.start()
    eventually(lambda: scheduler.reports)
    assert timeouts == [7.0, 7.0, 14.0, 14.0, 28.0, 28.0, 56.0, 60.0]
    agent.rejoin()
    eventually(lambda: len(timeouts) == 9)
    assert timeouts[-1] == 7.0


def test_each_process_has_its_own_nonce_and_epoch(make: Make, scheduler: fakes.Scheduler) -> None:
    for epoch in (1, 2):
        agent = make()
        agent.start()
        eventually(lambda epoch=epoch: [report for report in scheduler.reports if report.epoch == epoch])  # type: ignore[misc]
        agent.stop()
    first, second = scheduler.hellos
    assert first.nonce != second.nonce


def test_a_second_process_is_turned_away_with_the_name_of_the_lock_file(make: Make, agent: BackendAgent) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        make().start()
    assert BACKEND in caught.value.message
    assert f"locks/{BACKEND}.lock" in caught.value.message


def test_a_storage_that_cannot_be_used_is_checked_again(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.failures["check"] = [errors.ConfigurationError("no such folder")] * 2 + [ValueError("garbled")]
    scheduler.ledger_id = "ledger-1"
    agent = make()
    agent.start()
    eventually(lambda: scheduler.reports)
    complaints = [record.message for record in caplog.records if "cannot start" in record.message]
    assert complaints == [
        f"Backend {BACKEND} cannot start yet and keeps trying: no such folder",
        f"Backend {BACKEND} cannot start yet and keeps trying: ValueError: garbled",
    ]
    # The schedulers know of it from its first failure, and nothing was written to a storage that had not been checked.
    assert len({hello.nonce for hello in scheduler.hellos}) == 1
    assert driver.calls[:4] == ["check", "check", "check", "check"]
    assert agent.trouble is None
    # The listing has the mark that was written, which the next agent will not write again.
    mark = scheduler.listings[0].ledger_marks["pool"]
    assert mark == driver.ledger_mark
    assert re.fullmatch("ledger-1-[0-9a-f]{8}", mark)


def test_storage_that_schedulers_reject_is_not_marked_and_is_checked_before_each_attempt(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = errors.WrongStorage("the ledger counts volumes there, and the storage has no mark")
    scheduler.failures["hello"] = [refusal] * 2
    scheduler.ledger_id = "ledger-1"
    checks = itertools.count(1)
    driver.on_entry["check"] = lambda: next(checks) == 3 and setattr(driver, "ledger_mark", "ledger-1")
    make().start()
    eventually(lambda: scheduler.reports, "it joins as soon as the storage is there")
    assert [hello.ledger_marks for hello in scheduler.hellos] == [{"pool": ""}, {"pool": ""}, {"pool": "ledger-1"}]
    assert driver.calls[:5] == ["check", "check", "check", "mark", "list"]
    complaints = [record.message for record in caplog.records if "cannot join yet" in record.message]
    assert complaints == [f"Backend {BACKEND} cannot join yet and keeps trying: {refusal.message}"]


def test_a_driver_that_cannot_read_its_mark_says_no_hello(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hello without the mark would be one of storage that cannot be marked."""
    reads = iter([errors.DriverError("no answer"), ValueError("garbled")])

    def marks() -> Mapping[str, str | None]:
        for error in reads:
            raise error
        return {"pool": "ledger-1"}

    monkeypatch.setattr(driver, "ledger_marks", marks)
    make().start()
    eventually(lambda: scheduler.reports)
    assert [hello.ledger_marks for hello in scheduler.hellos] == [{"pool": "ledger-1"}]


def test_a_driver_without_marks_runs_nothing_until_its_listing_is_accepted(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    driver.can_mark = False
    scheduler.failures["listing"] = [errors.WrongStorage("the storage holds none of them")] * 1000
    agent = make()
    agent.start()
    eventually(lambda: len(scheduler.failures["listing"]) < 998, "it lists again")
    client.run(BACKEND, [command("c1", "v1", Verb.DELETE)])
    eventually(agent.operations.in_hand)
    lists = driver.calls.count("list")
    eventually(lambda: driver.calls.count("list") > lists + 1)
    assert "delete v1" not in driver.calls
    assert driver.calls.count("check") >= driver.calls.count("list") - 1, "other storage may be there by now"
    driver.volumes["v1"] = 2
    scheduler.failures.clear()
    assert scheduler.outcome_of("c1").ok
    assert scheduler.listings[0].unmarked_pools == ["pool"]
    agent.list_now()
    assert eventually(lambda: scheduler.listings[1:])[0].unmarked_pools == [], "only the first listing is compared"


def test_a_backend_that_cannot_start_can_be_stopped(
    make: Make, driver: fakes.GatedDriver, scheduler: fakes.Scheduler
) -> None:
    driver.failures["check"] = [errors.DriverError("the storage is away")] * 1000
    agent = make()
    agent.start()
    eventually(lambda: agent.trouble == "the storage is away")
    agent.stop()
    assert agent.failure is None
    driver.failures.clear()
    make().start()  # the lock is free again


def test_no_operation_begins_before_the_listing_which_names_the_commands_that_wait(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_list = driver.close_gate("list")
    agent = make()
    agent.start()
    driver.await_entry("list")
    client.run(BACKEND, [command("c1", "v1")])
    eventually(agent.operations.in_hand)
    assert "create v1" not in driver.calls
    open_list()
    assert eventually(lambda: scheduler.listings)[0].in_hand == ["c1"]
    assert scheduler.outcome_of("c1").end_tick > scheduler.listings[0].tick


def test_a_list_that_fails_is_made_again(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.failures["list"] = [errors.DriverError("array busy"), ValueError("garbled")]
    scheduler.failures["listing"] = [fakes.TROUBLE]
    make().start()
    eventually(lambda: scheduler.reports)
    assert "array busy" in caplog.text
    assert "the driver cannot list volumes: ValueError: garbled" in caplog.text


# Operations


def test_an_operation_ends_in_an_outcome_a_report_and_one_line(
    agent: BackendAgent,
    scheduler: fakes.Scheduler,
    client: fakes.Calls,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        client.run(BACKEND, [command("c1", "v1")])
        outcome = scheduler.outcome_of("c1")
    assert (outcome.ok, outcome.size_gb, outcome.epoch, outcome.message) == (True, 2, 1, "")
    report = eventually(lambda: [report for report in scheduler.reports if report.covers > outcome.end_tick])[0]
    assert report.pools[0]["provisioned_capacity_gb"] == 2
    assert f"[req-1] create volume v1 in pool {BACKEND}#pool, claim c1: done, 2 GiB" in caplog.text


def test_a_report_that_began_before_an_operation_ended_does_not_claim_to_contain_it(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_report = driver.close_gate("report")
    client.report_now(BACKEND)
    driver.await_entry("report")  # the driver has looked and found nothing
    client.run(BACKEND, [command("c1", "v1")])
    outcome = scheduler.outcome_of("c1")
    open_report()
    eventually(lambda: len(scheduler.reports) >= 3)
    early, late = scheduler.reports[1:3]
    assert early.pools[0]["provisioned_capacity_gb"] == 0
    assert early.covers < outcome.end_tick
    assert late.pools[0]["provisioned_capacity_gb"] == 2
    assert late.covers > outcome.end_tick
    assert [report.seq // REPORT_STEP for report in scheduler.reports[:3]] == [1, 2, 3]


def test_many_endings_share_few_reports_and_the_last_report_contains_all(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_report = driver.close_gate("report")
    client.report_now(BACKEND)
    driver.await_entry("report")
    for number in range(30):
        client.run(BACKEND, [command(f"c{number}", f"v{number}")])
    ends = [scheduler.outcome_of(f"c{number}").end_tick for number in range(30)]
    assert len(set(ends)) == 30
    open_report()
    last = eventually(lambda: [report for report in scheduler.reports if report.covers > max(ends)])[0]
    assert last.pools[0]["provisioned_capacity_gb"] == 60
    # The first one, the one at the gate, and one for all that ended meanwhile.
    assert len(scheduler.reports) == 3


def test_a_backend_that_stays_busy_reports_less_often(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver
) -> None:
    looks: list[float] = []

    def noted() -> None:
        looks.append(time.monotonic())
        agent.report_now()  # there is always something new

    driver.on_entry["report"] = noted
    agent = make(busy_gap=0.05, longest_gap=0.3)
    agent.start()
    eventually(lambda: len(looks) >= 20)
    gaps = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert min(gaps[-3:]) >= 0.29, "with the same pause each time they would be 0.05"


@pytest.mark.parametrize(
    ("polling_interval", "gaps"), [(20, [1, 1, 2, 3, 3]), (10, [1, 1, 2, 2, 2]), (1, [1, 1, 1, 1, 1])]
)
def test_busy_backends_report_often_where_idle_ones_do(polling_interval: float, gaps: list[float]) -> None:
    assert [gap_after(seconds, polling_interval, 1, 3) for seconds in (0, 1, 10, 15, 60)] == gaps


def test_a_report_waits_for_short_operations_and_carries_unacknowledged_outcomes(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    scheduler.failures["outcomes"] = [errors.Unavailable("away")] * 50
    agent = make(quiet_wait=fakes.DEADLINE, quiet_look=fakes.DEADLINE)
    agent.start()
    eventually(lambda: scheduler.reports)
    open_create = driver.close_gate("create v1")
    client.run(BACKEND, [command("c1", "v1")])
    driver.await_entry("create v1")
    client.report_now(BACKEND)
    eventually(lambda: agent.operations.suspended)
    time.sleep(0.1)
    open_create()
    report = eventually(lambda: scheduler.reports[1:])[0]
    assert report.pools[0]["provisioned_capacity_gb"] == 2
    assert [(outcome.claim_id, outcome.ok) for outcome in report.ended] == [("c1", True)]
    assert report.covers > report.ended[0].end_tick
    scheduler.outcome_of("c1")
    assert agent.outbox.flush(fakes.DEADLINE)  # it knows that it has arrived
    client.report_now(BACKEND)
    eventually(lambda: scheduler.reports[-1].ended == [])


def test_a_report_does_not_wait_for_long_operations(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    agent = make(quiet_wait=2 * fakes.DEADLINE)
    agent.operations._durations.append(3 * fakes.DEADLINE)
    agent.start()
    eventually(lambda: scheduler.reports)
    open_create = one_runs_one_waits(agent, driver, client)
    client.report_now(BACKEND)
    assert eventually(lambda: scheduler.reports[1:])[0].in_hand == ["c1", "c2"]
    open_create()
    scheduler.outcome_of("c2")


def test_a_report_names_the_claims_whose_commands_wait_or_run(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_create = one_runs_one_waits(agent, driver, client)
    client.report_now(BACKEND)
    assert eventually(lambda: scheduler.reports[1:])[0].in_hand == ["c1", "c2"]
    open_create()
    scheduler.outcome_of("c2")
    eventually(lambda: scheduler.reports[-1].in_hand == [])


def test_a_repeated_command_runs_once_and_is_answered_from_the_record(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_create = driver.close_gate("create")
    for _ in range(3):
        client.run(BACKEND, [command("c1", "v1")])
    driver.await_entry("create")
    open_create()
    first = scheduler.outcome_of("c1")
    assert agent.outbox.flush(fakes.DEADLINE)
    client.run(BACKEND, [command("c1", "v1")])
    eventually(lambda: len(scheduler.outcomes_received) == 2)
    assert scheduler.outcomes_received[1] == first
    assert driver.calls.count("create v1") == 1


def test_commands_of_other_epochs_are_ignored(
    agent: BackendAgent,
    scheduler: fakes.Scheduler,
    driver: fakes.GatedDriver,
    client: fakes.Calls,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    client.run(BACKEND, [command("c0", "v0", epoch=0)])
    client.run(BACKEND, [command("c2", "v2", epoch=2)])
    client.run(BACKEND, [command("c1", "v1")])
    scheduler.outcome_of("c1")
    assert sorted(driver.volumes) == ["v1"]
    assert f"Backend {BACKEND} is in epoch 1 and ignores claim c0 of epoch 0: create volume v0" in caplog.text
    assert "claim c2 of epoch 2" in caplog.text
    assert {record.levelno for record in caplog.records if "ignores claim" in record.getMessage()} == {logging.INFO}


def test_a_malformed_command_is_ignored_with_a_warning(
    agent: BackendAgent, scheduler: fakes.Scheduler, client: fakes.Calls, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    peer.cast(contract.RUN, messages.Commands(commands=[{"claim_id": 7}]), BACKEND)
    client.run(BACKEND, [command("c1", "v1")])
    scheduler.outcome_of("c1")
    assert f"Backend {BACKEND} ignores a command: malformed Command" in caplog.text


def test_an_outcome_is_sent_until_a_scheduler_takes_it(
    agent: BackendAgent, scheduler: fakes.Scheduler, client: fakes.Calls, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.failures["outcomes"] = [fakes.TROUBLE] * 4
    client.run(BACKEND, [command("c1", "v1")])
    scheduler.outcome_of("c1")
    assert agent.outbox.flush(fakes.DEADLINE)
    assert len(scheduler.outcomes_received) == 1
    complaints = [record.message for record in caplog.records if "could not be delivered" in record.message]
    assert len(complaints) == 1


def test_an_outcome_survives_that_no_scheduler_is_there(
    make: Make, bus: Transport, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    first = fakes.Scheduler()
    server = SchedulerServer(bus, "one", first)
    server.start()
    make().start()
    eventually(lambda: first.reports)
    open_create = driver.close_gate("create")
    client.run(BACKEND, [command("c1", "v1")])
    driver.await_entry("create")
    server.stop()
    server.wait()
    bus.conf.set_override("rpc_response_timeout", 1)
    open_create()

    second = fakes.Scheduler()
    second.epoch, second.nonce = first.epoch, first.nonce
    server = SchedulerServer(bus, "two", second)
    server.start()
    assert second.outcome_of("c1").ok
    server.stop()
    server.wait()


def test_commands_of_one_message_run_in_their_order(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    sizes = [command(f"c{size}", "v1", Verb.EXTEND, size_gb=size) for size in range(3, 9)]
    client.run(BACKEND, [command("c1", "v1"), *sizes, command("c9", "v2")])
    for claim in ("c1", "c8", "c9"):
        assert scheduler.outcome_of(claim).ok
    assert driver.volumes == {"v1": 8, "v2": 2}
    ticks = [scheduler.outcome_of(f"c{number}").end_tick for number in (1, 3, 4, 5, 6, 7, 8)]
    assert ticks == sorted(ticks)


def test_a_malformed_command_does_not_affect_the_others_of_its_message(
    agent: BackendAgent, scheduler: fakes.Scheduler, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    good = [serialization.pack(command(claim, volume)) for claim, volume in (("c1", "v1"), ("c2", "v2"))]
    peer.cast(contract.RUN, messages.Commands(commands=7), BACKEND)  # type: ignore[arg-type]
    peer.cast(contract.RUN, messages.Commands(commands=[good[0], {"claim_id": 7}, good[1]]), BACKEND)
    assert scheduler.outcome_of("c1").ok
    assert scheduler.outcome_of("c2").ok
    assert f"Backend {BACKEND} ignores a command: malformed Command" in caplog.text
    assert f"Backend {BACKEND} ignores run: malformed" in caplog.text


def test_outcomes_are_sent_together(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    make().start()
    eventually(lambda: scheduler.reports)
    # Both that are sent first fail and come again later, with all others.
    scheduler.failures["outcomes"] = [fakes.TROUBLE] * 30
    for number in range(40):
        client.run(BACKEND, [command(f"c{number}", f"v{number}")])
    for number in range(40):
        assert scheduler.outcome_of(f"c{number}").ok
    assert max(scheduler.batch_sizes) > 1


# Lists besides


def test_it_lists_again_periodically_and_on_request(make: Make, scheduler: fakes.Scheduler, bus: Transport) -> None:
    agent = make(listing_interval=0.05)
    agent.start()
    eventually(lambda: scheduler.reports)  # it has joined; the list that it sends then may be overtaken
    joined = len(scheduler.listings)
    eventually(lambda: len(scheduler.listings) >= joined + 3)
    agent.stop()
    ticks = [listing.tick for listing in scheduler.listings[joined:]]
    assert ticks == sorted(set(ticks))
    second = make(listing_interval=0)
    second.start()
    eventually(lambda: [listing for listing in scheduler.listings if listing.epoch == 2])
    fakes.Calls(bus).list_now(BACKEND)
    eventually(lambda: [listing for listing in scheduler.listings if listing.epoch == 2][1:])


def test_a_report_follows_a_failed_listing(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver
) -> None:
    failing: list[BaseException] = [errors.DriverError("the storage has gone") for _ in range(50)]
    driver.on_entry["report"] = lambda: driver.failures.update(list=failing)
    before = len(scheduler.reports)
    agent.list_now()
    eventually(lambda: len(scheduler.reports) > before)
    assert len(scheduler.listings) == 1, "the one with which it joined"


def test_operations_continue_during_a_listing_which_names_them(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    client.run(BACKEND, [command("c0", "v0")])
    before = scheduler.outcome_of("c0")
    open_extend = driver.close_gate("extend v0")
    client.run(BACKEND, [command("c1", "v0", Verb.EXTEND, size_gb=3)])
    client.run(BACKEND, [command("c2", "v0", Verb.DELETE)])
    driver.await_entry("extend v0")
    open_list = driver.close_gate("list")
    agent.list_now()
    driver.await_entry("list")
    client.run(BACKEND, [command("c3", "v3")])
    during = scheduler.outcome_of("c3")  # begun and ended while the driver looks
    open_list()
    listing = eventually(lambda: scheduler.listings[1:])[0]
    assert sorted(listing.in_hand) == ["c1", "c2", "c3"]
    assert before.end_tick < during.end_tick < listing.tick
    open_extend()
    assert scheduler.outcome_of("c2").end_tick > listing.tick


def test_a_superseded_idle_agent_notices_by_its_listing(make: Make, scheduler: fakes.Scheduler) -> None:
    agent = make(listing_interval=0.05)
    agent.start()
    eventually(lambda: scheduler.reports)
    scheduler.epoch, scheduler.nonce = 2, "somebody else's"
    assert agent.wait(fakes.DEADLINE)
    assert f"backend {BACKEND}: epoch 1 is over" in str(agent.failure)
    assert len(scheduler.hellos) == 1


def test_a_listing_of_a_past_epoch_does_not_end_the_agent(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_list = driver.close_gate("list")
    agent.list_now()
    driver.await_entry("list")
    scheduler.epoch, scheduler.nonce = 4, "somebody else's"
    client.rejoin(BACKEND)
    driver.await_entry("list")  # of the new epoch
    open_list()
    eventually(lambda: sorted(listing.epoch for listing in scheduler.listings) == [1, 1, 5])
    eventually(lambda: scheduler.reports[-1].epoch == 5)
    assert agent.failure is None


# Stamps


def test_a_backend_that_shares_no_storage_reports_without_a_call(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver
) -> None:
    driver.storage = "array"
    agent = make()
    agent.start()
    assert eventually(lambda: scheduler.reports)[0].stamps == {}
    agent.report_now()
    assert eventually(lambda: scheduler.reports[1:])[0].stamps == {}
    assert scheduler.queries == []


def test_stamps_of_shared_storages_are_taken_before_each_look(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver
) -> None:
    driver.storage, scheduler.shared_storages = "array", ["array"]
    agent = make()
    agent.start()
    assert eventually(lambda: scheduler.reports)[0].stamps == {"array": 1}
    open_report = driver.close_gate("report")
    agent.report_now()
    driver.await_entry("report")
    assert scheduler.queries == [messages.StampQuery(backend=BACKEND, storage_ids=["array"])] * 2
    open_report()
    assert eventually(lambda: scheduler.reports[1:])[0].stamps == {"array": 2}


def test_a_backend_that_is_told_that_it_shares_a_storage_reports_soon_with_a_stamp(
    agent: BackendAgent, scheduler: fakes.Scheduler, client: fakes.Calls
) -> None:
    client.take_stamps(BACKEND, ["array"])
    assert eventually(lambda: scheduler.reports[1:])[0].stamps == {"array": 1}
    client.take_stamps(BACKEND, ["array"])
    client.take_stamps(BACKEND, ["array", "other"])
    assert eventually(lambda: scheduler.reports[2:])[0].stamps == {"array": 2, "other": 2}
    assert len(scheduler.reports) == 3, "only what is new is worth a report"


def test_a_malformed_list_of_shared_storages_is_ignored(
    agent: BackendAgent, scheduler: fakes.Scheduler, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    peer.cast(contract.TAKE_STAMPS, messages.SharedStorages(storage_ids=7), BACKEND)  # type: ignore[arg-type]
    eventually(lambda: f"Backend {BACKEND} ignores take_stamps: malformed" in caplog.text)


def test_a_report_goes_without_stamps_where_there_are_none(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.storage, scheduler.shared_storages = "array", ["array"]
    caplog.set_level("INFO")
    scheduler.failures["stamps"] = [fakes.TROUBLE] * 2
    agent = make()
    agent.start()
    assert eventually(lambda: scheduler.reports)[0].stamps == {}
    agent.report_now()
    assert eventually(lambda: scheduler.reports[1:])[0].stamps == {}
    trouble = "tonnage-scheduler: the database is away"
    assert caplog.text.count(f"Backend {BACKEND} reports without stamps of its storages: {trouble}") == 1
    agent.report_now()
    assert eventually(lambda: scheduler.reports[2:])[0].stamps == {"array": 1}
    assert f"Backend {BACKEND} has stamps of its storages again" in caplog.text


# Epochs


def test_asked_to_rejoin_it_says_the_same_hello_lists_and_reports(
    agent: BackendAgent, scheduler: fakes.Scheduler, client: fakes.Calls
) -> None:
    client.rejoin(BACKEND)
    eventually(lambda: len(scheduler.listings) == 2)
    eventually(lambda: len(scheduler.reports) == 2)
    assert scheduler.hellos[0] == scheduler.hellos[1]
    assert [report.epoch for report in scheduler.reports] == [1, 1]
    assert scheduler.reports[1].covers > scheduler.listings[1].tick > scheduler.reports[0].covers


def test_commands_that_wait_are_kept_if_the_epoch_stays_the_same(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_create = one_runs_one_waits(agent, driver, client)
    client.rejoin(BACKEND)
    eventually(lambda: agent.hellos_requested == 2 and agent.operations.suspended)
    open_create()
    assert scheduler.outcome_of("c2").ok
    listing = eventually(lambda: scheduler.listings[1:])[0]
    assert listing.in_hand == ["c2"]
    assert [volume.volume_id for volume in listing.volumes] == ["v1"]


def test_a_new_epoch_begins_when_all_of_the_old_one_has_ended_and_drops_the_rest(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_create = one_runs_one_waits(agent, driver, client)
    scheduler.epoch, scheduler.nonce = 6, "somebody else's"
    client.rejoin(BACKEND)
    eventually(lambda: agent.hellos_requested == 2 and agent.operations.suspended)
    assert len(scheduler.hellos) == 1  # not while something of the old epoch runs
    open_create()
    listing = eventually(lambda: scheduler.listings[1:])[0]
    assert (listing.epoch, listing.in_hand) == (7, [])
    assert [(volume.volume_id, volume.size_gb) for volume in listing.volumes] == [("v1", 2)]
    assert eventually(lambda: scheduler.reports[1:])[-1].epoch == 7
    # The same claim may be ordered again in the new epoch.
    client.run(BACKEND, [command("c2", "v1", Verb.EXTEND, size_gb=5, epoch=7)])
    assert scheduler.outcome_of("c2").epoch == 7
    assert driver.volumes == {"v1": 5}


def test_a_ledger_that_lost_the_epoch_makes_it_rejoin_and_the_outcome_arrives(
    agent: BackendAgent, scheduler: fakes.Scheduler, client: fakes.Calls
) -> None:
    scheduler.unknown = lambda: client.rejoin(BACKEND)
    scheduler.epoch, scheduler.nonce = 0, ""
    client.run(BACKEND, [command("c1", "v1")])
    eventually(lambda: len(scheduler.listings) >= 2)
    eventually(
        lambda: [outcome for outcome in scheduler.outcomes_received if scheduler.epoch == 1 == outcome.epoch][1:]
    )
    assert agent.outbox.flush(fakes.DEADLINE)
    assert agent.failure is None


def test_a_superseded_agent_stops_with_a_message(
    make: Make, agent: BackendAgent, scheduler: fakes.Scheduler, client: fakes.Calls
) -> None:
    scheduler.epoch, scheduler.nonce = 2, "somebody else's"
    client.run(BACKEND, [command("c1", "v1")])
    assert agent.wait(fakes.DEADLINE)
    assert agent.failure == (
        f"backend {BACKEND}: epoch 1 is over, another process has introduced itself as this backend; no two agents may "
        "run backends of the same name, so this one stops serving it"
    )
    before = len(scheduler.reports)
    make().start()  # the lock is free again
    eventually(lambda: len(scheduler.reports) > before)


# Reports


def test_it_reports_every_polling_interval(make: Make, scheduler: fakes.Scheduler) -> None:
    make(polling_interval=0.05).start()
    # The bus keeps no order, nor do the threads that it wakes.
    eventually(lambda: {1, 2, 3} <= {report.seq // REPORT_STEP for report in scheduler.reports})
    reports = sorted(scheduler.reports, key=lambda report: report.seq)
    assert [report.seq // REPORT_STEP for report in reports[:3]] == [1, 2, 3]
    covers = [report.covers for report in reports]
    assert covers == sorted(set(covers))


def test_it_reports_soon_after_the_driver_has_news(
    agent: BackendAgent, driver: fakes.GatedDriver, scheduler: fakes.Scheduler
) -> None:
    eventually(lambda: scheduler.reports)
    before = len(scheduler.reports)
    driver.news = lambda: len(scheduler.reports) == before
    eventually(lambda: len(scheduler.reports) > before)


@pytest.mark.parametrize("error", [OSError("no such device"), SystemExit("bye")])
def test_a_driver_that_fails_to_notice_goes_on_reporting(
    make: Make,
    scheduler: fakes.Scheduler,
    driver: fakes.GatedDriver,
    error: BaseException,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> bool:
        raise error

    driver.news = fail
    agent = make()
    agent.start()
    said = f"Backend {BACKEND} cannot tell whether something has changed: {type(error).__name__}: {error}"
    eventually(lambda: said in caplog.messages)
    before = len(scheduler.reports)
    agent.report_now()
    eventually(lambda: len(scheduler.reports) > before)
    assert agent.failure is None


def test_a_slow_report_is_followed_by_a_rest_of_the_same_length(agent: BackendAgent, driver: fakes.GatedDriver) -> None:
    looks: list[tuple[float, float]] = []

    def slow() -> None:
        began = time.monotonic()
        threading.Event().wait(0.2)
        looks.append((began, time.monotonic()))

    driver.on_entry["report"] = slow
    eventually(lambda: agent.report_now() or len(looks) >= 4)  # type: ignore[func-returns-value]  # changes never end
    assert all(later[0] - earlier[1] >= 0.2 for earlier, later in itertools.pairwise(looks))


def test_a_report_that_fails_is_silence_with_one_warning_for_each_cause(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[BaseException] = [SystemExit("bye"), asyncio.CancelledError("late")]
    driver.failures["report"] = [errors.DriverError("array busy")] * 5 + [ValueError("garbled")] * 5 + ends
    with caplog.at_level(logging.INFO):
        make(polling_interval=0.01).start()
        eventually(lambda: scheduler.reports and f"Backend {BACKEND} reports again" in caplog.messages)
    mine = [record.message for record in caplog.records if "report" in record.message and BACKEND in record.message]
    assert mine == [
        f"Backend {BACKEND} could not report: array busy",
        f"Backend {BACKEND} could not report: ValueError: garbled",
        f"Backend {BACKEND} could not report: SystemExit: bye",
        f"Backend {BACKEND} could not report: CancelledError: late",
        f"Backend {BACKEND} reports again",
    ]
    assert scheduler.reports[0].seq == 25 * REPORT_STEP, "each failure and each notice of it has a number"


def test_schedulers_are_told_why_no_report_comes(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver
) -> None:
    driver.failures["report"] = [errors.DriverError("No such file: '/srv/a'"), ValueError("garbled")]
    make(polling_interval=0.01).start()
    eventually(lambda: scheduler.reports and len(scheduler.notices) == 2)
    told = [(notice.backend, notice.epoch, notice.code, notice.text) for notice in scheduler.notices]
    assert told == [
        (BACKEND, 1, NoticeCode.FAILING, "No such file: '/srv/a'"),
        (BACKEND, 1, NoticeCode.FAILING, "ValueError: garbled"),
    ]
    assert scheduler.notices[1].seq < scheduler.reports[0].seq


def test_schedulers_are_told_why_a_backend_cannot_start(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver
) -> None:
    driver.failures["check"] = [errors.DriverError("not mounted")]
    make().start()
    eventually(lambda: scheduler.reports)
    [notice] = scheduler.notices
    assert (notice.epoch, notice.code, notice.text) == (1, NoticeCode.FAILING, "not mounted")
    assert notice.seq <= scheduler.reports[0].seq


def test_schedulers_are_told_why_a_backend_cannot_join(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver
) -> None:
    driver.failures["list"] = [errors.DriverError("the array hides its volumes")]
    make().start()
    eventually(lambda: scheduler.reports)
    assert [notice.text for notice in scheduler.notices] == ["the array hides its volumes"]


def test_figures_that_no_message_can_carry_are_a_failed_report(
    agent: BackendAgent, driver: fakes.GatedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.pools = [{"pool_name": object()}]
    agent.report_now()
    eventually(lambda: f"Backend {BACKEND} could not report: TypeError" in caplog.text)
    assert agent.failure is None


# The end


def test_stopping_lets_operations_end_and_tells_of_them(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_create = one_runs_one_waits(agent, driver, client)
    stopping = threading.Thread(target=agent.stop)
    stopping.start()
    eventually(lambda: agent.operations.suspended)
    open_create()
    stopping.join(fakes.DEADLINE)
    assert agent.wait(0)
    assert agent.failure is None
    assert {outcome.claim_id for outcome in eventually(lambda: scheduler.outcomes_received)} == {"c1"}
    assert driver.volumes == {"v1": 2}  # what only waited was not begun


def test_stopping_tells_of_an_operation_whose_worker_has_not_come_to_it_yet(
    agent: BackendAgent, scheduler: fakes.Scheduler, client: fakes.Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "on_outcome", lambda outcome: None)
    client.run(BACKEND, [command("c1", "v1")])
    eventually(agent.operations.unacknowledged)
    agent.stop()
    assert [outcome.claim_id for outcome in scheduler.outcomes_received] == ["c1"]


def test_an_operation_that_does_not_end_keeps_the_backend_locked(
    make: Make, agent: BackendAgent, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_create = driver.close_gate("create")
    client.run(BACKEND, [command("c1", "v1")])
    driver.await_entry("create")
    agent.stop(timeout=0.1)
    assert agent.wait(0)
    with pytest.raises(errors.ConfigurationError, match="is run by another process"):
        make().start()
    open_create()


def test_it_stops_while_no_scheduler_answers_its_hello(make: Make, bus: Transport) -> None:
    agent = make()
    agent.start()
    agent.stop(timeout=0.5)
    assert agent.wait(0)
    assert agent.failure is None


def test_an_error_of_a_call_that_ends_after_the_stop_is_no_failure(
    make: Make, driver: fakes.GatedDriver, scheduler: fakes.Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tonnage.agent")
    open_report = driver.close_gate("report")
    driver.failures["report"] = [KeyboardInterrupt("closed")]
    agent = make()
    agent.start()
    driver.await_entry("report")
    agent.stop(timeout=0.1)
    open_report()
    eventually(lambda: [record for record in caplog.records if "a call has ended after the stop" in record.message])
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_schedulers_are_told_that_it_stops_before_its_operations_end(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    finish = one_runs_one_waits(agent, driver, client)
    stopping = threading.Thread(target=agent.stop)
    stopping.start()
    [notice] = eventually(lambda: scheduler.notices)
    assert (notice.backend, notice.epoch, notice.code, notice.text) == (BACKEND, 1, NoticeCode.STOPPED, "")
    assert driver.running, "the operation continues"
    finish()
    stopping.join(fakes.DEADLINE)
    assert not stopping.is_alive()


def test_schedulers_are_told_the_failure_that_ends_a_backend(agent: BackendAgent, scheduler: fakes.Scheduler) -> None:
    agent.on_crash(RuntimeError("worker"))
    assert agent.wait(fakes.DEADLINE)
    [notice] = eventually(lambda: scheduler.notices)
    assert (notice.code, notice.text) == (NoticeCode.STOPPED, agent.failure)


def test_a_backend_that_no_scheduler_knows_stops_without_a_word(
    make: Make, scheduler: fakes.Scheduler, driver: fakes.GatedDriver
) -> None:
    scheduler.failures["hello"] = [errors.Conflict("another ledger")] * 100
    agent = make()
    agent.start()
    eventually(lambda: scheduler.hellos)
    agent.stop()
    assert scheduler.notices == []


# Draining


def test_a_drained_backend_reports_no_pools_ends_its_operations_and_stops(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_create = one_runs_one_waits(agent, driver, client)
    agent.drain()
    eventually(lambda: scheduler.reports[-1].pools == [])
    # A volume that was placed just before the scheduler got that report is created, too.
    client.run(BACKEND, [command("c3", "v3")])
    assert scheduler.outcome_of("c3").ok
    assert not agent.wait(timeout=0)
    open_create()
    assert agent.wait(fakes.DEADLINE)
    assert agent.failure is None
    assert {outcome.claim_id for outcome in scheduler.outcomes_received if outcome.ok} == {"c1", "c2", "c3"}
    last = scheduler.reports[-1]
    assert (last.pools, last.in_hand) == ([], [])
    assert last.covers > max(outcome.end_tick for outcome in scheduler.outcomes_received)
    assert driver.volumes == {"v1": 5, "v3": 2}
    assert [(notice.code, notice.text) for notice in scheduler.notices] == [(NoticeCode.WITHDRAWN, "")]


def test_a_backend_that_drains_says_hello_when_it_is_asked(
    agent: BackendAgent, scheduler: fakes.Scheduler, driver: fakes.GatedDriver, client: fakes.Calls
) -> None:
    open_create = one_runs_one_waits(agent, driver, client)
    agent.drain()
    agent.rejoin()
    open_create()
    assert agent.wait(fakes.DEADLINE)
    assert len(scheduler.hellos) == 2
    assert scheduler.outcome_of("c1").ok


def test_a_drained_backend_without_a_scheduler_stops_at_once(make: Make, scheduler: fakes.Scheduler) -> None:
    scheduler.failures["hello"] = [fakes.TROUBLE] * 100_000
    agent = make()
    agent.start()
    eventually(lambda: scheduler.hellos)
    agent.drain()
    assert agent.wait(fakes.DEADLINE)


def test_a_stop_cuts_a_drain_short(agent: BackendAgent, driver: fakes.GatedDriver, client: fakes.Calls) -> None:
    open_create = one_runs_one_waits(agent, driver, client)
    agent.drain()
    agent.stop(timeout=0.1)
    assert agent.wait(timeout=0)
    open_create()
