# SPDX-License-Identifier: Apache-2.0
"""The thread of the audit: one failing backend hinders no other, and listings are requested in due time."""

from unittest import mock

import pytest
from oslo_db import exception as db_exc

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import StoredVolume
from tonnage.rpc.clients.command_sender import CommandSender
from tonnage.rpc.messages import Listing
from tonnage.scheduler.observers.audit_thread import AuditThread
from tonnage.scheduler.observers.driver_audit import AuditedReport, Compared, DriverAudit


def test_an_error_in_one_backend_does_not_keep_others_from_being_audited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver_audit, agents = (
        mock.create_autospec(DriverAudit, instance=True),
        mock.create_autospec(CommandSender, instance=True),
    )
    driver_audit.inspect.side_effect = [db_exc.DBReferenceError("t", "c", "k", "k_t"), None]
    driver_audit.doubtful.return_value = {}
    mine = AuditThread(driver_audit, agents, lambda: 0.0)
    for number, name in enumerate(("h@gone", "h@here")):
        mine.report(number, AuditedReport(backend=name, pools=[]))
    mine.work()
    assert [call.args[1].backend for call in driver_audit.inspect.call_args_list] == ["h@gone", "h@here"]
    assert "The reports of the driver of h@gone could not be audited" in caplog.text
    driver_audit.inspect.side_effect = errors.Unavailable("the database is away")
    mine.report(0, AuditedReport(backend="h@here", pools=[]))
    with pytest.raises(errors.Unavailable):
        mine.work()


def test_messages_for_which_there_is_no_room_are_audited_the_next_time_they_come() -> None:
    driver_audit, agents = (
        mock.create_autospec(DriverAudit, instance=True),
        mock.create_autospec(CommandSender, instance=True),
    )
    driver_audit.doubtful.return_value = {}
    driver_audit.compare.return_value = Compared.DONE
    audit = AuditThread(driver_audit, agents, lambda: 0.0, most_items=4)
    volume = StoredVolume(id="v", pool="p", size_gb=1)

    def arrive(backend: str, seq: int, length: int) -> None:
        audit.report(1, AuditedReport(backend=backend, pools=[{"seq": seq}] * length))
        audit.listing(1, Listing(backend=backend, epoch=1, tick=seq, volumes=[volume] * length))

    def audited() -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        driver_audit.reset_mock()
        audit.work()
        reports = [call.args[1] for call in driver_audit.inspect.call_args_list]
        listings = [call.args[1] for call in driver_audit.compare.call_args_list]
        return (
            [(report.backend, report.pools[0]["seq"]) for report in reports],
            [(listing.backend, listing.tick) for listing in listings],
        )

    for backend, seq, length in (("h@a", 1, 3), ("h@b", 1, 2), ("h@a", 2, 2), ("h@c", 1, 2), ("h@d", 1, 1)):
        arrive(backend, seq, length)
    assert audited() == ([("h@a", 2), ("h@c", 1)],) * 2
    arrive("h@b", 2, 2)
    assert audited() == ([("h@b", 2)],) * 2
    arrive("h@huge", 1, 100)
    assert audited() == ([("h@huge", 1)],) * 2


def test_a_new_finding_is_checked_again_soon() -> None:
    """Not with the next report, which may be a minute away."""
    now = 0.0
    driver_audit, agents = (
        mock.create_autospec(DriverAudit, instance=True),
        mock.create_autospec(CommandSender, instance=True),
    )
    mine = AuditThread(driver_audit, agents, lambda: now)
    for outcome, asked in ((Compared.NEEDS_SECOND_LISTING, [mock.call(BACKEND)]), (Compared.DONE, [])):
        driver_audit.compare.return_value = outcome
        agents.list_now.reset_mock()
        mine.listing(1, Listing(backend=BACKEND, epoch=1, tick=2, volumes=[]))
        mine.work()
        assert agents.list_now.call_args_list == []
        for _ in range(2):
            now += 3.0
            mine.work()
        assert agents.list_now.call_args_list == asked


class AskedWorld(World):
    """A world that notes when a listing is asked for."""

    asked = 0

    def list_now(self, backend: str) -> None:
        self.asked += 1


def test_a_volume_that_may_be_an_orphan_is_looked_for_again_soon() -> None:
    """A copy of a deleted volume is an orphan only in the second listing, which comes before the usual interval."""
    world = AskedWorld({"p0": StoragePool(20, 2.0, thin=True, thick=False)})
    world.started()
    volume_id = world.made(3)
    world.delete(volume_id)
    world.settle()
    world.pools["p0"].volumes[volume_id] = (3, Provisioning.THIN)
    world.audit.work()
    for asked in (1, 1):
        world.registration.listings([world.agent.listing()])
        world.audit.work()
        world.now += 3.0
        world.audit.work()
        assert world.asked == asked
    assert world.rows("SELECT category FROM discrepancies") == [("orphan",)]


def test_a_listing_that_takes_long_is_not_asked_for_back_to_back() -> None:
    """Where something that was found may have been mended, or is found once and another time something else."""
    now = 0.0
    driver_audit, agents = (
        mock.create_autospec(DriverAudit, instance=True),
        mock.create_autospec(CommandSender, instance=True),
    )
    driver_audit.doubtful.return_value = {BACKEND: True}
    driver_audit.compare.return_value = Compared.DONE
    mine = AuditThread(driver_audit, agents, lambda: now)
    asked: list[float] = []
    agents.list_now.side_effect = lambda name: asked.append(now)
    for second in range(200):
        now = float(second)
        if asked and now == asked[-1] + 5:
            mine.listing(1, Listing(backend=BACKEND, epoch=1, tick=2, volumes=[]))
        mine.report(1, AuditedReport(backend=BACKEND, pools=[]))
        mine.work()
    assert asked == [0, 8, 19, 36, 65, 95, 148], "from then on half a minute, a minute and so on are sooner"
    asked.clear()
    driver_audit.doubtful.return_value = {}
    driver_audit.compare.return_value = Compared.NEEDS_SECOND_LISTING
    came = now
    mine.listing(1, Listing(backend=BACKEND, epoch=1, tick=2, volumes=[]))
    for second in range(100):
        now = came + second
        if asked and now == asked[-1] + 5:
            mine.listing(1, Listing(backend=BACKEND, epoch=1, tick=2, volumes=[]))
        mine.work()
    assert [each - came for each in asked] == [3, 14, 31, 60]
