# SPDX-License-Identifier: Apache-2.0
"""Creates and deletes of the CSI driver that are interrupted, or whose outcome the plugin does not tell."""

import contextlib
import dataclasses
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from tests.servers.csi_plugin import CsiPlugin
from tests.unit.agent import fakes
from tests.unit.drivers.csi.backends import Make, create_foreign, direct_plugin, eventually, figures, listed, volume
from tonnage.agent import execution
from tonnage.agent.backoff import BackOff
from tonnage.agent.operations import Epoch, Operations
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.capacity.units import GIB
from tonnage.drivers.base import Driver, Volume
from tonnage.drivers.csi.connection import Deadline
from tonnage.rpc.messages import Command, Outcome, Verb


def create_unresolved(plugin: CsiPlugin, driver: Driver) -> None:
    """Let the plugin make the volume, and lose its answer."""
    plugin.settings.lost_answers["CreateVolume"] = grpc.StatusCode.UNKNOWN
    with pytest.raises(errors.OutcomeUnknown):
        driver.create(volume())
    plugin.settings.lost_answers.clear()


def command(claim_id: str, verb: Verb = Verb.CREATE) -> Command:
    """Return a command for the volume of 1 GiB."""
    given = fakes.command(claim_id, "v", verb, size_gb=1, pool="default")
    return dataclasses.replace(given, provisioning=Provisioning.THICK)


def operation(claim_id: str) -> Volume:
    """Return the volume of 1 GiB in an operation of a scheduler."""
    return dataclasses.replace(volume(), operation_id=claim_id)


def set_timeout(driver: Driver, seconds: float) -> None:
    """Change the timeout of the operations that begin from now on."""
    driver.conf._conf.set_override("csi_timeout", seconds, group=driver.conf.section_name)


def test_repeating_a_create_whose_answer_was_lost_finds_the_volume(plugin: CsiPlugin, make: Make) -> None:
    driver = make("csi_timeout = 60")
    gate = plugin.settings.gates["CreateVolume"] = threading.Event()
    plugin.settings.losing.add("CreateVolume")
    with pytest.raises(errors.DriverError, match="CreateVolume with DEADLINE_EXCEEDED") as caught:
        driver.create(volume())
    assert not caught.value.clean
    assert listed(driver) == {}
    with pytest.raises(errors.DriverError, match="1 GiB were asked for before"):
        driver.create(volume(size_gb=2))
    # The plugin is still creating the volume, and rejects a repeated request.
    again = threading.Thread(target=driver.create, args=[volume()])
    again.start()
    eventually(lambda: len(plugin.asked("CreateVolume")) > 3)
    gate.set()
    again.join()
    assert listed(driver) == {"v": ("default", 1.0)}
    assert len(plugin.storage.all()) == 1


def test_a_refusal_of_a_retry_does_not_cover_the_first_attempt(plugin: CsiPlugin, make: Make) -> None:
    plugin.settings.lists = False
    driver = make("csi_timeout = 60")
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.ABORTED
    with futures.ThreadPoolExecutor(1) as threads:
        creating = threads.submit(driver.create, volume())
        eventually(lambda: len(plugin.asked("CreateVolume")) > 1)
        plugin.settings.failing["CreateVolume"] = grpc.StatusCode.FAILED_PRECONDITION
        with pytest.raises(errors.DriverError, match="CreateVolume with FAILED_PRECONDITION") as caught:
            creating.result()
    assert not caught.value.clean
    # The request is repeated, as the volume may exist.
    with pytest.raises(errors.DriverError, match="CreateVolume with FAILED_PRECONDITION"):
        driver.delete(volume())
    plugin.settings.failing.clear()
    driver.delete(volume())
    assert plugin.storage.all() == []


@pytest.mark.parametrize("made", [True, False])
def test_a_create_that_is_repeated_after_a_restart_finds_the_volume(plugin: CsiPlugin, make: Make, made: bool) -> None:
    driver = make("csi_timeout = 60")
    plugin.settings.lost_answers["CreateVolume"] = grpc.StatusCode.INTERNAL
    with pytest.raises(errors.OutcomeUnknown):
        driver.create(volume())
    plugin.settings.lost_answers.clear()
    if not made:
        plugin.settings.failing["CreateVolume"] = grpc.StatusCode.RESOURCE_EXHAUSTED
        direct_plugin(plugin).delete(plugin.storage.all()[0].id, Deadline(60))
    restarted = make()
    if made:
        restarted.create(volume())
    else:
        with pytest.raises(errors.CapacityExceeded):
            restarted.create(volume())
    assert listed(restarted) == ({"v": ("default", 1.0)} if made else {})


@pytest.mark.parametrize("lists", [True, False])
def test_a_failure_without_a_reason_is_repeated_and_compared_with_the_list(
    plugin: CsiPlugin, make: Make, lists: bool
) -> None:
    """Without a list, or with a volume in it that may be the one, the outcome is unknown."""
    plugin.settings.lists = lists
    driver = make()
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.INTERNAL
    with pytest.raises(errors.DriverError, match="CreateVolume with INTERNAL") as caught:
        driver.create(volume())
    assert len(plugin.asked("CreateVolume")) == 2
    assert (caught.value.clean, isinstance(caught.value, errors.OutcomeUnknown)) == (lists, not lists)
    plugin.settings.failing.clear()
    create_foreign(plugin, 2 * GIB)
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.INTERNAL
    # A volume of others that was there before is not the one.
    with pytest.raises(errors.DriverError) as caught:
        driver.create(volume("w", 2))
    assert caught.value.clean is lists


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize(
    "refusal",
    [
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
    ],
    ids=lambda code: code.name,
)
def test_a_refusal_of_a_repeated_create_does_not_tell_that_nothing_was_made(
    plugin: CsiPlugin, make: Make, refusal: grpc.StatusCode, lists: bool
) -> None:
    """A plugin may look for capacity, or at the parameters, before it looks for a volume of that name."""
    plugin.settings.lists = lists
    driver = make()
    create_unresolved(plugin, driver)
    plugin.settings.failing["CreateVolume"] = refusal
    for _ in range(2):
        with pytest.raises(errors.OutcomeUnknown, match=f"{refusal.name}: .*; an earlier call may have made it"):
            driver.create(volume())
    with pytest.raises(errors.OutcomeUnknown):
        driver.delete(volume())
    plugin.settings.failing.clear()
    driver.delete(volume())
    assert plugin.storage.all() == []


def test_a_refused_repeated_create_has_made_nothing_if_the_list_lacks_it(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    create_foreign(plugin, name="earlier")
    create_unresolved(plugin, driver)
    [made] = [kept.id for kept in plugin.storage.all() if kept.name != "earlier"]
    later = create_foreign(plugin, name="later")
    direct_plugin(plugin).delete(made, Deadline(60))
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.RESOURCE_EXHAUSTED
    restarted = make()
    # The volume of others that was made after the request may be it.
    with pytest.raises(errors.OutcomeUnknown):
        restarted.create(volume())
    restarted.manage(volume("mine"), later)
    with pytest.raises(errors.CapacityExceeded):
        restarted.create(volume())
    restarted.delete(volume())
    assert len(plugin.storage.all()) == 2


def test_a_list_that_changes_between_its_pages_proves_nothing(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    create_unresolved(plugin, driver)
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.RESOURCE_EXHAUSTED
    plugin.settings.empty_lists = 1
    with pytest.raises(errors.OutcomeUnknown):
        driver.create(volume())


@pytest.mark.parametrize("sections", ["csi_storage_classes = other", "csi_storage_classes = default"])
def test_a_create_without_an_answer_waits_for_its_class(plugin: CsiPlugin, make: Make, sections: str) -> None:
    create_unresolved(plugin, make())
    restarted = make(sections)
    if "other" in sections:
        with pytest.raises(errors.OutcomeUnknown, match="there is no such pool, and an earlier call may have made it"):
            restarted.create(volume())
    else:
        restarted.create(volume())


@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_volume_that_exists_with_other_properties_is_in_error_and_can_be_deleted(
    plugin: CsiPlugin, make: Make, is_repeated: bool
) -> None:
    """By the standard the request must not be repeated after ALREADY_EXISTS."""
    create_unresolved(plugin, make())
    driver = make('csi_parameters = {"copies": "2"}')
    [made] = plugin.storage.all()
    result = execution.execute(driver, command("c"), is_repeated)
    assert (result.ok, result.unknown, result.clean, result.size_gb) == (False, False, False, 1.0)
    assert f"ALREADY_EXISTS: {made.name} is there and is another; the plugin has it as {made.id}" in result.message
    assert listed(driver) == {"v": ("default", 1.0)}
    driver.delete(volume())
    assert plugin.storage.all() == []


@pytest.mark.parametrize("lists", [True, False])
def test_a_volume_that_exists_with_other_properties_and_an_unknown_id_counts(
    plugin: CsiPlugin, make: Make, lists: bool
) -> None:
    create_unresolved(plugin, make())
    [made] = plugin.storage.all()
    plugin.settings.lists = lists
    driver = make('csi_parameters = {"copies": "2"}')
    later = create_foreign(plugin, name="later")
    assert execution.execute(driver, command("c"), True).size_gb == 1.0
    # An operator can manage or purge the volumes that it may be.
    assert listed(driver).keys() == ({"v", made.id, later} if lists else {"v"})
    with pytest.raises(errors.Conflict, match=f"list does not tell the id .* as {made.name}: delete that with"):
        driver.delete(volume())
    assert {kept.id for kept in plugin.storage.all()} == {made.id, later}
    # With the parameters of the first request its id is known.
    make().delete(volume())
    assert {kept.id for kept in plugin.storage.all()} == {later}


@pytest.mark.parametrize("failure", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ALREADY_EXISTS])
def test_a_delete_finds_a_volume_whose_id_contains_its_name(
    plugin: CsiPlugin, make: Make, failure: grpc.StatusCode
) -> None:
    """The volume may have taken the room that the plugin looks for before it looks for the name."""
    plugin.settings.speaking_ids = True
    driver = make()
    create_unresolved(plugin, driver)
    later = create_foreign(plugin, name="later")
    plugin.settings.failing["CreateVolume"] = failure
    driver.delete(volume())
    assert [kept.id for kept in plugin.storage.all()] == [later]
    assert listed(driver) == {later: ("default", 1.0)}


def test_a_delete_leaves_a_volume_that_was_managed_meanwhile(plugin: CsiPlugin, make: Make) -> None:
    plugin.settings.speaking_ids = True
    driver = make("csi_timeout = 0.5")
    create_unresolved(plugin, driver)
    [made] = plugin.storage.all()
    driver.manage(volume("mine"), made.id)
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(errors.OutcomeUnknown):
        driver.delete(volume())
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.RESOURCE_EXHAUSTED
    driver.delete(volume())
    assert plugin.storage.all() == [made]
    assert listed(driver) == {"mine": ("default", 1.0)}


def test_a_volume_of_others_is_never_taken_for_one_with_other_properties(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    foreign = create_foreign(plugin)
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.ALREADY_EXISTS
    with pytest.raises(errors.Conflict):
        driver.create(volume())
    with pytest.raises(errors.Conflict):
        driver.delete(volume())
    assert [kept.id for kept in plugin.storage.all()] == [foreign]
    plugin.settings.failing.clear()
    driver.delete(volume())
    assert [kept.id for kept in plugin.storage.all()] == [foreign]


def test_a_volume_without_an_answer_counts_once_after_a_restart(
    plugin: CsiPlugin, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    driver = make()
    foreign = create_foreign(plugin)
    create_unresolved(plugin, driver)
    restarted = make()
    assert "it is not known whether the plugin has made these volumes: v in pool default" in caplog.text
    plugin.settings.lost_answers["CreateVolume"] = grpc.StatusCode.UNKNOWN
    for _ in range(2):
        assert listed(restarted) == {foreign: ("default", 1.0)}
        assert figures(restarted)["default"][2] == 1.0
        with pytest.raises(errors.OutcomeUnknown):
            restarted.create(volume())
    plugin.settings.lost_answers.clear()
    restarted.create(volume())
    assert listed(restarted) == {"v": ("default", 1.0), foreign: ("default", 1.0)}


def test_a_delete_is_done_within_a_retry_interval_of_the_first_answer(
    plugin: CsiPlugin, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent repeats a create and then its delete, and logs each failure once."""
    backoff = BackOff(first=0.2, longest=0.4)
    outcomes: queue.Queue[Outcome] = queue.Queue()
    agent = Operations(make("csi_timeout = 60"), 1, 600.0, fakes.Owner(outcomes.put, pytest.fail), backoff=backoff)
    agent.begin_epoch(Epoch(1))
    agent.resume()
    plugin.settings.lost_answers["CreateVolume"] = grpc.StatusCode.UNKNOWN
    agent.submit(command("c"))
    assert outcomes.get(timeout=60).unknown
    eventually(lambda: len(plugin.asked("CreateVolume")) > 4)
    agent.submit(command("d", Verb.DELETE))
    assert {outcomes.get(timeout=60).claim_id for _ in range(2)} == {"c", "d"}
    asked = len(plugin.asked("CreateVolume"))
    eventually(lambda: len(plugin.asked("CreateVolume")) > asked + 2)
    assert len(plugin.storage.all()) == 1
    plugin.settings.lost_answers.clear()
    # A pause of the agent, and time for a machine that stands still.
    assert outcomes.get(timeout=backoff.longest + 60).ok
    assert plugin.storage.all() == []
    assert [record.levelname for record in caplog.records if "UNKNOWN" in record.getMessage()] == ["WARNING"] * 2
    agent.close()


@pytest.mark.parametrize(
    ("code", "timeout"),
    [(grpc.StatusCode.INTERNAL, 60), (grpc.StatusCode.UNAVAILABLE, 0.5)],
    ids=["INTERNAL", "UNAVAILABLE"],
)
def test_a_failure_that_lasts_is_logged_once(
    plugin: CsiPlugin, make: Make, caplog: pytest.LogCaptureFixture, code: grpc.StatusCode, timeout: float
) -> None:
    plugin.settings.lists = False
    outcomes: queue.Queue[Outcome] = queue.Queue()
    backoff = BackOff(first=0.05, longest=0.1)
    owner = fakes.Owner(outcomes.put, pytest.fail)
    agent = Operations(make(f"csi_timeout = {timeout}"), 1, 600.0, owner, backoff=backoff)
    agent.begin_epoch(Epoch(1))
    agent.resume()
    plugin.settings.failing["CreateVolume"] = code
    agent.submit(command("c"))
    assert outcomes.get(timeout=60).unknown
    asked = len(plugin.asked("CreateVolume"))
    eventually(lambda: len(plugin.asked("CreateVolume")) > asked + 10)
    plugin.settings.failing.clear()
    assert outcomes.get(timeout=60).ok
    agent.close()
    failures = [each for each in caplog.records if "answers Controller/CreateVolume with" in each.getMessage()]
    assert [record.levelname for record in failures] == ["WARNING"]


def test_a_volume_that_may_be_an_unresolved_one_is_not_of_others(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    plugin.settings.lost_answers["CreateVolume"] = grpc.StatusCode.INTERNAL
    with pytest.raises(errors.OutcomeUnknown):
        driver.create(volume())
    assert listed(driver) == {}
    plugin.settings.lost_answers.clear()
    driver.create(volume())
    assert listed(driver) == {"v": ("default", 1.0)}


@pytest.mark.parametrize("written", ["NEW.plugin_id IS NULL", "NEW.plugin_id IS NOT NULL"], ids=["request", "answer"])
def test_a_volume_is_not_lost_while_the_state_file_cannot_be_written(
    plugin: CsiPlugin, make: Make, tmp_path: Path, written: str
) -> None:
    driver = make()

    def change_state_file(statement: str) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as database, database:
            database.execute(statement)

    full = "SELECT RAISE(ABORT, 'the disk is full')"
    change_state_file(f"CREATE TRIGGER full BEFORE INSERT ON volumes WHEN {written} BEGIN {full}; END")
    with pytest.raises(errors.OutcomeUnknown, match=r"csi_state_file .*/state.db: the disk is full"):
        driver.create(volume())
    assert listed(driver) == {}
    change_state_file("DROP TRIGGER full")
    driver.create(volume())
    assert listed(driver) == {"v": ("default", 1.0)}
    assert len(plugin.storage.all()) == 1


def test_a_volume_that_was_managed_before_its_create_had_an_answer_belongs_to_one_id(
    plugin: CsiPlugin, make: Make
) -> None:
    driver = make()
    plugin.settings.lost_answers["CreateVolume"] = grpc.StatusCode.INTERNAL
    with pytest.raises(errors.OutcomeUnknown):
        driver.create(volume())
    plugin.settings.lost_answers.clear()
    restarted = make()
    restarted.manage(volume("mine"), plugin.storage.all()[0].id)
    with pytest.raises(errors.DriverError, match="is volume mine in pool default") as caught:
        restarted.create(volume())
    assert caught.value.clean
    restarted.delete(volume())
    assert listed(restarted) == {"mine": ("default", 1.0)}


def test_a_restart_creates_nothing(plugin: CsiPlugin, make: Make) -> None:
    """Only the schedulers know which of the volumes without an answer are still wanted."""
    driver = make()
    plugin.settings.lost_answers["CreateVolume"] = grpc.StatusCode.INTERNAL
    with pytest.raises(errors.OutcomeUnknown):
        driver.create(volume())
    plugin.settings.lost_answers.clear()
    direct_plugin(plugin).delete(plugin.storage.all()[0].id, Deadline(60))
    restarted = make()
    restarted.report()
    assert plugin.storage.all() == []
    # A delete finds that there is nothing to delete.
    plugin.settings.failing["CreateVolume"] = grpc.StatusCode.INTERNAL
    restarted.delete(volume())
    assert plugin.storage.all() == []


def test_an_operation_waits_for_an_absent_plugin_as_long_as_an_operation_may_take(
    plugin: CsiPlugin, make: Make
) -> None:
    driver = make("csi_timeout = 60")
    driver.conf._conf.set_override("csi_look_timeout", 0.1, group=driver.conf.section_name)
    plugin.stop()
    timer = threading.Timer(1.0, plugin.start)
    timer.start()
    driver.create(volume())
    timer.join()
    assert len(plugin.storage.all()) == 1


def test_a_delete_of_a_volume_that_may_exist(plugin: CsiPlugin, make: Make) -> None:
    driver, slow_driver = make("csi_timeout = 1"), make("csi_timeout = 60")
    gate = plugin.settings.gates["CreateVolume"] = threading.Event()
    plugin.settings.losing.add("CreateVolume")
    with pytest.raises(errors.DriverError, match="the answer is lost"):
        slow_driver.create(volume())
    # The plugin is still creating the volume, and rejects the request if the second suffices.
    with pytest.raises(errors.DriverError, match=r"delete failed: .*CreateVolume with (ABORTED|DEADLINE_EXCEEDED)"):
        driver.delete(volume())
    gate.set()
    eventually(lambda: len(plugin.storage.all()) == 1)
    slow_driver.delete(volume())
    assert plugin.storage.all() == []
    assert figures(driver) == {"default": (10.0, 10.0, 0.0)}


def test_a_create_waits_for_a_plugin_that_restarts(plugin: CsiPlugin, make: Make) -> None:
    driver = make("csi_timeout = 60")
    plugin.stop()
    creating = threading.Thread(target=driver.create, args=[volume()])
    creating.start()
    plugin.start()
    creating.join()
    assert listed(driver) == {"v": ("default", 1.0)}


def test_an_unrecorded_volume_of_another_size_is_an_error(plugin: CsiPlugin, make: Make) -> None:
    make().create(volume())
    driver = make(state="lost.db")
    with pytest.raises(errors.Conflict, match=r"ALREADY_EXISTS: .* is there and is another"):
        driver.create(volume(size_gb=2))
    assert sorted(size for _, size in listed(driver).values()) == [1.0, 2.0]


def test_a_volume_deleted_by_others_can_be_created_again(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    driver.create(volume())
    direct_plugin(plugin).delete(plugin.storage.all()[0].id, Deadline(60))
    assert listed(driver) == {}
    with pytest.raises(errors.NotFound):
        driver.extend(volume(), 2)
    driver.create(volume(size_gb=2))
    assert listed(driver) == {"v": ("default", 2.0)}


EXPAND = "ControllerExpandVolume"


#: Failures of a query: answers, for good or not, and calls without an answer.
QUERY_FAILURES = [
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.CANCELLED,
]


@pytest.mark.parametrize("code", QUERY_FAILURES)
@pytest.mark.parametrize("method", ["ListVolumes", "GetCapacity"])
def test_an_extend_whose_queries_fail_before_it_has_begun_ends(
    plugin: CsiPlugin, make: Make, method: str, code: grpc.StatusCode
) -> None:
    driver = make()
    driver.create(volume())
    plugin.settings.failing[method] = code
    with pytest.raises(errors.DriverError, match=f"extend to 2 GiB failed: .*{method} with {code.name}") as caught:
        driver.extend(operation("c"), 2)
    assert (type(caught.value), caught.value.clean) == (errors.DriverError, True)
    ended = execution.execute(driver, dataclasses.replace(command("c", Verb.EXTEND), size_gb=2))
    assert (ended.ok, ended.unknown, ended.clean) == (False, False, True)
    assert plugin.asked(EXPAND) == []
    plugin.settings.failing.clear()
    driver.extend(operation("d"), 2)
    assert listed(driver) == {"v": ("default", 2.0)}


def test_an_extend_that_has_not_begun_ends_with_an_invalid_capacity(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    driver.create(volume())
    plugin.settings.smallest = -1
    with pytest.raises(errors.DriverError, match="minimum_volume_size = -1") as caught:
        driver.extend(operation("c"), 2)
    assert (type(caught.value), caught.value.clean) == (errors.DriverError, True)


@pytest.mark.parametrize("code", QUERY_FAILURES)
def test_an_extend_that_may_have_begun_is_repeated_however_its_queries_fail(
    plugin: CsiPlugin, make: Make, code: grpc.StatusCode
) -> None:
    """The earlier call of the plugin may still have an effect, and no other pool can extend."""
    driver = make()
    driver.create(volume())
    plugin.settings.failing[EXPAND] = grpc.StatusCode.CANCELLED
    with pytest.raises(errors.OutcomeUnknown, match=f"{EXPAND} with CANCELLED"):
        driver.extend(operation("c"), 2)
    plugin.settings.failing = {"ListVolumes": code}
    restarted = make()
    with pytest.raises(errors.OutcomeUnknown, match=f"extend to 2 GiB failed: .*ListVolumes with {code.name}"):
        restarted.extend(operation("c"), 2)
    with pytest.raises(errors.DriverError) as caught:
        restarted.extend(operation("d"), 2)
    assert (type(caught.value), caught.value.clean) == (errors.DriverError, True)
    plugin.settings.failing.clear()
    restarted.extend(operation("c"), 2)
    assert listed(driver) == {"v": ("default", 2.0)}


def test_an_extend_that_does_not_reach_the_plugin_is_repeated(plugin: CsiPlugin, make: Make) -> None:
    driver = make("csi_timeout = 60")
    plugin.settings.lists = False
    driver.check()
    driver.create(volume())
    plugin.settings.failing[EXPAND] = grpc.StatusCode.CANCELLED
    with pytest.raises(errors.OutcomeUnknown, match="CANCELLED"):
        driver.extend(operation("c"), 2)
    set_timeout(driver, 1)
    plugin.stop()
    with pytest.raises(errors.OutcomeUnknown, match=f"{EXPAND} with UNAVAILABLE"):
        driver.extend(operation("c"), 2)


def test_an_extend_that_the_plugin_works_on_is_admitted_once(plugin: CsiPlugin, make: Make) -> None:
    """The plugin has taken the capacity already, so the repeated call would not fit."""
    driver = make()
    driver.create(volume())
    plugin.settings.failing[EXPAND] = grpc.StatusCode.DEADLINE_EXCEEDED
    with pytest.raises(errors.OutcomeUnknown):
        driver.extend(operation("c"), 8)
    plugin.settings.sizes[""] = 3 * GIB
    with pytest.raises(errors.OutcomeUnknown):
        make().extend(operation("c"), 8)
    plugin.settings.failing[EXPAND] = grpc.StatusCode.OUT_OF_RANGE
    with pytest.raises(errors.DriverError, match="OUT_OF_RANGE") as caught:
        driver.extend(operation("c"), 8)
    assert caught.value.clean
    calls = len(plugin.asked(EXPAND))
    with pytest.raises(errors.CapacityExceeded, match="headroom 2"):
        driver.extend(operation("c"), 8)
    assert len(plugin.asked(EXPAND)) == calls


def test_a_new_extend_is_admitted_whatever_became_of_an_earlier_one(plugin: CsiPlugin, make: Make) -> None:
    """The process died before the call of the earlier one, or others have ended that."""
    driver = make()
    driver.create(volume())
    plugin.settings.failing[EXPAND] = grpc.StatusCode.DEADLINE_EXCEEDED
    with pytest.raises(errors.OutcomeUnknown):
        driver.extend(operation("c"), 8)
    plugin.settings.failing.clear()
    plugin.settings.sizes[""] = 3 * GIB
    for later in (operation("d"), volume()):
        with pytest.raises(errors.CapacityExceeded, match="headroom 2"):
            driver.extend(later, 8)
    assert len(plugin.asked(EXPAND)) == 1


class ArrivalLock:
    """A lock that is passed on in the order of arrival. ``arrivals`` counts the threads that have come for it."""

    def __init__(self) -> None:
        self.arrivals = 0
        self._departures = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            turn = self.arrivals
            self.arrivals += 1
            assert self._changed.wait_for(lambda: self._departures == turn, 60)

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._departures += 1
            self._changed.notify_all()


@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.EXTEND])
def test_the_wait_for_another_volume_is_not_a_part_of_a_timeout(plugin: CsiPlugin, make: Make, verb: Verb) -> None:
    """The plugin does not answer a create, and other volumes of the pool wait until that has timed out."""
    driver = make("csi_timeout = 60")
    driver.create(volume("w"))
    set_timeout(driver, 2)
    lock = driver._storage_locks["default"] = ArrivalLock()
    gate = plugin.settings.gates["CreateVolume"] = threading.Event()

    with futures.ThreadPoolExecutor(3) as threads:

        def begin(method: Callable[..., None], *arguments: object) -> "futures.Future[None]":
            arrivals = lock.arrivals
            call = threads.submit(method, *arguments)
            eventually(lambda: lock.arrivals > arrivals)
            return call

        unanswered = [begin(driver.create, volume(volume_id)) for volume_id in ("v", "x")]
        last = begin(driver.create, volume("y")) if verb is Verb.CREATE else begin(driver.extend, volume("w"), 2)
        eventually(lambda: any(request.name.startswith("x-") for request in plugin.asked("CreateVolume")))
        # A call gets its timeout when it has the lock: the last one is not in a hurry.
        set_timeout(driver, 60)
        plugin.settings.gates["GetCapacity"] = gate
        queries = len(plugin.asked("GetCapacity"))
        for call in unanswered:
            with pytest.raises(errors.OutcomeUnknown):
                call.result()
        eventually(lambda: last.done() or len(plugin.asked("GetCapacity")) > queries)
        # A call without time left ends meanwhile.
        time.sleep(0.2)
        gate.set()
        last.result()
