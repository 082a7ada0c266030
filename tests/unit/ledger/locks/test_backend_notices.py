# SPDX-License-Identifier: Apache-2.0
"""Notices of agents in the ledger: the order of notices, reports and hellos, and the words for a state."""

import datetime

import pytest

from tests.unit.ledger.records import Records
from tonnage.ledger.inventory import backends, reports
from tonnage.ledger.locks import backend_notices, heartbeats
from tonnage.ledger.locks.backend_notices import DOWN, FAILING, STOPPED, WITHDRAWN, Notice

AT = datetime.datetime.fromisoformat("2026-11-27 20:41:02")
NAME = "host@b"


@pytest.fixture
def records() -> Records:
    """A ledger with a backend in epoch 3, whose last report has the number 10."""
    records = Records()
    records.backend(NAME, epoch=3, report_seq=10, report_covers=10)
    return records


def notice(records: Records) -> tuple[str, str] | None:
    """Return the code and the text of the backend's notice."""
    with records.database.reading() as session:
        [row] = backends.load_backends(session)
        [service] = [service for service in heartbeats.load(session) if service.binary == heartbeats.AGENT]
    assert row.notice == service.notice
    return None if row.notice is None else (row.notice.code, row.notice.text)


def record(records: Records, code: str, text: str = "", *, epoch: int = 3, seq: int = 11) -> None:
    records.run(backend_notices.record, NAME, epoch=epoch, seq=seq, code=code, text=text)


def report(records: Records, seq: int) -> None:
    backend_id = records.backend(NAME)
    message = reports.Report(backend_id=backend_id, epoch=3, seq=seq, base=10, covers=seq, rules=0, figures=[])
    [applied] = records.run(reports.apply, [message])
    assert applied is not None


def test_a_notice_is_recorded_unless_it_is_late(records: Records) -> None:
    assert notice(records) is None
    record(records, FAILING, "of the last epoch", epoch=2)
    record(records, FAILING, "of before the report", seq=10)
    assert notice(records) is None
    record(records, FAILING, "No such file\n\tor directory " + "x" * 2000)
    assert notice(records) == (FAILING, "No such file or directory " + "x" * 369 + " ... " + "x" * 600)
    record(records, FAILING, "another error", seq=12)
    assert notice(records) == (FAILING, "another error")


@pytest.mark.parametrize("code", [STOPPED, WITHDRAWN])
def test_an_end_is_recorded_whatever_was_reported_and_stays(records: Records, code: str) -> None:
    record(records, code, seq=1)
    record(records, FAILING, "of before the end")
    assert notice(records) == (code, "")
    report(records, 11)
    assert notice(records) == (code, "")
    record(records, STOPPED, seq=12)
    assert notice(records) == (code, "")
    with records.database.reading() as session:
        [row] = backends.load_backends(session)
    assert row.notice is not None
    assert abs(datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - row.notice.at) < datetime.timedelta(minutes=5)


def test_a_report_ends_a_failure(records: Records) -> None:
    record(records, FAILING, "not mounted")
    report(records, 12)
    assert notice(records) is None


@pytest.mark.parametrize("code", [STOPPED, WITHDRAWN, FAILING])
def test_a_hello_ends_every_notice(records: Records, code: str) -> None:
    record(records, code)
    records.run(backends.hello, NAME, "nonce", "nova", "driver")
    assert notice(records) is None


@pytest.mark.parametrize(
    ("silence", "notice", "reason"),
    [
        (5.0, None, None),
        (75.4, None, "no report for 75 s"),
        (None, None, "it has never reported"),
        (5.0, Notice(STOPPED, "", AT), "its agent stopped at 2026-11-27 20:41:02 UTC"),
        (75.0, Notice(STOPPED, "crash", AT), "no report for 75 s; its agent stopped at 2026-11-27 20:41:02 UTC: crash"),
        (None, Notice(DOWN, "its service in Cinder is disabled", AT), "its service in Cinder is disabled"),
        (
            5.0,
            Notice(WITHDRAWN, "", AT),
            "its agent has withdrawn it at 2026-11-27 20:41:02 UTC: it is not in enabled_backends",
        ),
        (None, Notice(FAILING, "not mounted", AT), "it has never reported; its agent cannot report: not mounted"),
    ],
)
def test_a_state_has_a_reason(silence: float | None, notice: Notice | None, reason: str | None) -> None:
    assert backend_notices.state_reason(silence, notice, 60.0) == reason


def test_a_long_text_keeps_its_end_which_has_the_way_out(records: Records) -> None:
    text = f"the ledger counts volumes in {'p' * 1200}: mount the file system"
    record(records, FAILING, text)
    recorded = notice(records)
    assert recorded is not None
    assert len(recorded[1]) == 1000
    assert recorded[1].startswith("the ledger counts volumes in ppp")
    assert recorded[1].endswith("ppp: mount the file system")
    records.run(backend_notices.record_refusal, NAME, text)
    assert notice(records) == (backend_notices.REFUSED, recorded[1])
