# SPDX-License-Identifier: Apache-2.0
"""The ledger as Cinder's schedulers use it, with its probes and the poll of rows."""

import sys
import uuid
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.extensions.cinder.ledger.test_growths import Request
from tests.unit.extensions.cinder.scheduler.cinder_model import Row
from tests.unit.ledger.observed import BACKEND, POOL, Ledger
from tonnage.capacity import errors
from tonnage.capacity.decision import Refusal
from tonnage.extensions.cinder.ledger import observed_claims
from tonnage.extensions.cinder.ledger.growths import Step
from tonnage.extensions.cinder.ledger.probes import Probe
from tonnage.extensions.cinder.scheduler import cinder_ledger
from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger
from tonnage.extensions.cinder.scheduler.prober import Prober
from tonnage.extensions.cinder.scheduler.row_poll import RowPoll
from tonnage.extensions.cinder.scheduler.waiting_requests import WaitingRequests
from tonnage.ledger import models
from tonnage.ledger.catalog import refusals, volume_decisions
from tonnage.ledger.catalog.refusals import RefusalFilter, RefusedRequest
from tonnage.ledger.inventory import capacity_figures
from tonnage.ledger.locks import heartbeats

OTHER = "real@b2#a"


class Rows:
    """Rows that a test gives."""

    def __init__(self, *rows: Row) -> None:
        self.rows = {row.id: row for row in rows}
        self.reads: list[Collection[str] | None] = []
        self.fails = False

    def read(self, volume_ids: Collection[str] | None = None) -> Sequence[Row]:
        if self.fails:
            raise OSError("no database")
        self.reads.append(volume_ids)
        ids = volume_ids
        return [row for row in self.rows.values() if ids is None or row.id in ids or row.group_id in ids]

    def snapshots_in_hand(self) -> Collection[str]:
        return ()


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger()
    found.probe_and_report()
    return found


@pytest.fixture
def cinder(ledger: Ledger) -> CinderLedger:
    return CinderLedger(ledger.database, lease=60, lag=0)


def a_row(size: int = 3, pool: str | None = POOL, status: str = "available") -> Row:
    return Row(str(uuid.uuid4()), size, pool, status)


def a_refusal(volume_id: str) -> RefusedRequest:
    refusal = Refusal("5 GiB", 2)
    return RefusedRequest(request_id="req-1", volume_id=volume_id, project_id="p", verb="create", refusal=refusal)


def test_the_request_id_of_a_probe_names_it() -> None:
    probe = Probe(BACKEND, 3, 17)
    assert cinder_ledger.answered(BACKEND, cinder_ledger.token(probe)) == probe


@pytest.mark.parametrize("request_id", [None, "", "req-1b6c", "req-tonnage-1", "req-tonnage-1-2-3", "req-tonnage-x-1"])
def test_another_request_id_names_no_probe(request_id: str | None) -> None:
    assert cinder_ledger.answered(BACKEND, request_id) is None


def test_the_first_poll_adopts_all_volumes_also_in_unknown_pools(ledger: Ledger, cinder: CinderLedger) -> None:
    rows = Rows(a_row(), a_row(4, OTHER), a_row(5, None, "error"), a_row(6, "legacy"))
    RowPoll(cinder, rows, WaitingRequests(300), 60).poll()
    assert (ledger.counters(), ledger.counters(OTHER)) == ((3, 3), (4, 4))
    assert "real@b2" in ledger.due()


def test_between_full_polls_only_volumes_in_hand_are_read(ledger: Ledger, cinder: CinderLedger) -> None:
    clock, making = Clock(), a_row(status="creating")
    rows = Rows(making, a_row())
    poll = RowPoll(cinder, rows, WaitingRequests(300), 60, clock)
    poll.poll()
    making.status = "available"
    poll.poll()
    assert rows.reads == [None, {making.id}]
    poll.poll()
    assert len(rows.reads) == 2
    clock.now = 61
    poll.poll()
    assert rows.reads[2:] == [None]
    ledger.probe_and_report(6)
    assert ledger.counters() == (6, 0)


def test_the_volumes_of_a_group_count_from_the_moment_at_which_its_claim_ends(
    ledger: Ledger, cinder: CinderLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cinder_ledger, "_CHUNK", 1)
    group, run, counted = str(uuid.uuid4()), ledger.database.run, []
    ledger.book(6, group, verb=observed_claims.GROUP)

    def counting(*step: Any) -> Any:
        try:
            return run(*step)
        finally:
            counted.append(ledger.counters())

    monkeypatch.setattr(ledger.database, "run", counting)
    members = [Row(str(uuid.uuid4()), 2, POOL, "creating", group_id=group) for _ in range(3)]
    RowPoll(cinder, Rows(*members), WaitingRequests(300), 60).poll_some(cinder.open_volumes())
    assert set(counted) == {(6, 6)}
    assert cinder.open_volumes() == {row.id for row in members}


@pytest.mark.parametrize("full", [False, True])
def test_a_volume_of_a_group_counts_once_before_the_others_have_hosts(
    ledger: Ledger, cinder: CinderLedger, full: bool
) -> None:
    group = str(uuid.uuid4())
    ledger.book(5, group, verb=observed_claims.GROUP)
    first, second = (Row(str(uuid.uuid4()), size, None, "creating", group_id=group) for size in (2, 3))
    poll = RowPoll(cinder, Rows(first, second, a_row(1)), WaitingRequests(300), 60)

    def polled() -> tuple[float, float]:
        if full:
            poll.poll_all()
        else:
            poll.poll_some(cinder.open_volumes())
        return ledger.counters()

    others = 1 if full else 0
    for first.pool, second.pool in ((None, None), (POOL, None), (POOL, POOL)):
        assert polled() == (5 + others, 5 + others)
    assert cinder.open_volumes() == {first.id, second.id}


def test_a_group_that_is_claimed_during_a_poll_counts_once(ledger: Ledger, cinder: CinderLedger) -> None:
    """Its claim comes after the claims were read, and the hosts of its volumes before their rows are."""
    group = str(uuid.uuid4())
    claims = cinder.claims(cinder.claimed_volumes())
    ledger.book(5, group, verb=observed_claims.GROUP)
    members = [Row(str(uuid.uuid4()), size, POOL, "creating", group_id=group) for size in (2, 3)]
    cinder.settle(claims, members)
    assert ledger.counters() == (5, 5)
    RowPoll(cinder, Rows(*members), WaitingRequests(300), 60).poll_some(cinder.open_volumes())
    assert ledger.counters() == (5, 5)
    assert cinder.open_volumes() == {row.id for row in members}


def test_a_poll_that_fails_is_tried_again(ledger: Ledger, cinder: CinderLedger) -> None:
    rows = Rows(a_row())
    poll = RowPoll(cinder, rows, WaitingRequests(300), 60)
    rows.fails = True
    with pytest.raises(OSError, match="no database"):
        poll.poll()
    rows.fails = False
    poll.poll()
    assert ledger.counters() == (3, 3)


def test_backends_that_are_up_are_probed_when_there_is_a_reason(ledger: Ledger, cinder: CinderLedger) -> None:
    sent: list[Probe] = []
    up = {BACKEND: "nova"}
    prober = Prober(cinder, 0.0, lambda: up, sent.append)
    prober.probe()
    assert sent == []
    prober.request(BACKEND)
    prober.probe()
    prober.probe()
    assert [probe.number for probe in sent] == [2]
    RowPoll(cinder, Rows(a_row()), WaitingRequests(300), 60).poll()
    up.clear()
    prober.probe()
    assert len(sent) == 1


def test_a_probe_that_cannot_be_sent_stays_wanted(cinder: CinderLedger) -> None:
    sent: list[Probe] = []

    def send(probe: Probe) -> None:
        sent.append(probe)
        if len(sent) == 1:
            raise OSError("no bus")

    prober = Prober(cinder, 0.0, lambda: {BACKEND: ""}, send)
    prober.request(BACKEND)
    with pytest.raises(OSError, match="no bus"):
        prober.probe()
    prober.probe()
    prober.probe()
    assert len(sent) == 2


def test_a_refusal_is_found_by_its_volume(ledger: Ledger, cinder: CinderLedger) -> None:
    volume_id = str(uuid.uuid4())
    cinder.refuse(a_refusal(volume_id))
    with ledger.database.reading() as session:
        [refusal] = volume_decisions.find(session, volume_id, 60.0).refusals
    assert refusal.message == "No pool for 5 GiB: 2 pools"


def test_a_refusal_that_is_delivered_again_is_none(ledger: Ledger, cinder: CinderLedger) -> None:
    placed, refused = ledger.book(2).volume_id, str(uuid.uuid4())
    key = observed_claims.key(refused, "create", "1")
    cinder.refuse(a_refusal(refused), key)
    cinder.refuse(a_refusal(refused), key)  # its first commit got no answer
    for volume_id in (placed, refused):
        with pytest.raises(observed_claims.Repeated):
            cinder.refuse(a_refusal(volume_id), observed_claims.key(volume_id, "create", "1"))
    with pytest.raises(observed_claims.Repeated):
        ledger.book(2, refused)
    assert ledger.counters() == (2, 2)


def test_a_request_without_a_decision_is_named_once(ledger: Ledger, cinder: CinderLedger) -> None:
    clock, row = Clock(), a_row(5, None, "creating")
    polls = [RowPoll(cinder, Rows(row, a_row()), WaitingRequests(300, clock), 0, clock) for _ in range(2)]
    for clock.now in (0.0, 299.0, 301.0, 700.0):
        for poll in polls:
            poll.poll()
    with ledger.database.reading() as session:
        [found] = volume_decisions.find(session, row.id, 60.0).refusals
    assert (found.code, found.verb, found.project_id) == ("undecided", "create", "project")
    assert found.message == (
        "No decision on create of a volume of 5 GiB for 301 s: the message is lost, or still waits on the bus"
    )


def test_a_volume_of_another_system_is_explained_by_its_claims(ledger: Ledger) -> None:
    claim = ledger.send(4)
    with ledger.database.reading() as session:
        found = volume_decisions.find(session, claim.volume_id, 60.0)
    assert (found.pool, found.size_gb) == (POOL, None)
    assert found.reason == "placed here by request req"


def test_the_reason_of_an_adopted_volume_names_no_request(ledger: Ledger, cinder: CinderLedger) -> None:
    row = a_row()
    RowPoll(cinder, Rows(row), WaitingRequests(300), 0).poll()
    with ledger.database.reading() as session:
        found = volume_decisions.find(session, row.id, 60.0)
    assert found.reason == "adopted from Cinder without a decision"


def test_a_backend_that_is_asked_for_reports_only_after_changes_is_not_down(ledger: Ledger) -> None:
    long_ago = sa.update(models.Backend).values(last_report_at=sa.func.datetime("now", "-1 day"))
    ledger.database.run(lambda session: session.execute(long_ago))
    with ledger.database.reading() as session:
        [pool] = capacity_figures.pools(session)
        [row] = heartbeats.load(session)
    assert pool.up(60.0)
    assert row.up(60.0)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, "option [tonnage] connection is not set: it takes the URL of the ledger"),
        ("nonsense", "option [tonnage] connection cannot be used: "),
        ("sqlite:////no/such/folder/ledger.sqlite", "the database that [tonnage] connection names cannot be used: "),
    ],
)
def test_an_unusable_url_is_told_by_the_option_that_has_it(url: str | None, expected: str) -> None:
    options: Any = SimpleNamespace(connection=url, claim_lease=60.0, figures_lag=0)
    with pytest.raises(errors.ConfigurationError) as raised:
        cinder_ledger.connect(options)
    assert raised.value.message.startswith(expected)


@pytest.mark.parametrize("url", ["postgresql://u:p@h/l", "postgresql+psycopg://u:p@h/l"])
def test_a_ledger_on_postgresql_is_refused_on_eventlet(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    patcher = SimpleNamespace(is_monkey_patched=lambda module: module == "thread")
    monkeypatch.setitem(sys.modules, "eventlet.patcher", patcher)  # type: ignore[arg-type]
    options: Any = SimpleNamespace(connection=url, claim_lease=60.0, figures_lag=0)
    with pytest.raises(errors.ConfigurationError, match="names PostgreSQL, which would stop a scheduler"):
        cinder_ledger.connect(options)


def test_a_growth_goes_on_with_its_owner_until_it_ends(ledger: Ledger, cinder: CinderLedger) -> None:
    ledger.probe_and_report(pools=(POOL, f"{BACKEND}#b"))
    ledger.send(8)
    request = Request(ledger)
    assert cinder.growths() == []
    assert cinder.book_growth(request.growth, request.growing, request.moving, request.key)
    other = CinderLedger(ledger.database, lease=60, lag=0)
    assert other.growths() == []
    [growth] = cinder.growths()
    assert not other.record(growth, Step.UNDOING)
    assert cinder.record(growth, Step.UNDOING, "it was full")
    [growth] = cinder.growths()
    cinder.end(growth)
    assert cinder.growths() == []
    with ledger.database.reading() as session:
        [refusal] = refusals.load(session, RefusalFilter(volume_id=growth.volume_id))
    failed = f"it has failed in {BACKEND}#b, in the last one with it was full; no more pools are tried"
    assert refusal.message == f"No pool for 3 GiB more by a move from {POOL}: {failed}"


def test_a_growth_that_ended_well_is_no_refusal(ledger: Ledger, cinder: CinderLedger) -> None:
    ledger.probe_and_report(pools=(POOL, f"{BACKEND}#b"))
    ledger.send(8)
    request = Request(ledger)
    cinder.book_growth(request.growth, request.growing, request.moving, request.key)
    cinder.end(request.growth)
    with ledger.database.reading() as session:
        assert refusals.load(session, RefusalFilter()) == []


def test_probes_of_a_backend_are_counted(ledger: Ledger, cinder: CinderLedger) -> None:
    last, answered = cinder.probes(BACKEND)
    assert last == answered
    probe = ledger.probe()
    assert probe is not None
    assert cinder.probes(BACKEND) == (last + 1, last)
    ledger.report(probe.number)
    assert cinder.probes(BACKEND) == (last + 1, last + 1)
