# SPDX-License-Identifier: Apache-2.0
"""Notices about backends, which tell why no report comes.

Agents send them when a backend stops or its storage cannot be measured, and a scheduler may refuse an agent. A backend
without an agent is down if the system of its volumes does not use it.
"""

import datetime
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models

#: The agent has stopped. Nothing but the hello of another process ends this.
STOPPED = "stopped"
#: The agent has given up this backend alone, which its configuration no longer enables. It ends as STOPPED does.
WITHDRAWN = "withdrawn"
#: The agent runs, and its last attempt to report has failed. The next report ends this.
FAILING = "failing"
#: A scheduler refuses the agent, because the storage is not that of its volumes. The hello that is accepted ends this.
REFUSED = "refused"
#: The system that has the volumes of an observed backend does not use it.
DOWN = "down"

#: The codes of an agent that serves the backend no more.
ENDED = (STOPPED, WITHDRAWN)

#: Most characters of the text of a notice, and of its end: that has the way out, after names that may be long.
_LONGEST_TEXT = 1000
_LONGEST_END = 600


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice about a backend.

    ``code`` is :data:`STOPPED`, :data:`WITHDRAWN`, :data:`FAILING`, :data:`REFUSED` or :data:`DOWN`. ``text`` is the
    error, which may be empty for an agent that has stopped or withdrawn the backend, or the reason of the other system.
    ``at`` is the time of the notice by the database's clock.
    """

    code: str
    text: str
    at: datetime.datetime

    @property
    def sentence(self) -> str:
        """The notice, as the end of a sentence that begins with the backend's name."""
        if self.code == STOPPED:
            said = f"its agent stopped at {self.at:%Y-%m-%d %H:%M:%S} UTC"
            return f"{said}: {self.text}" if self.text else said
        if self.code == WITHDRAWN:
            return f"its agent has withdrawn it at {self.at:%Y-%m-%d %H:%M:%S} UTC: it is not in enabled_backends"
        if self.code == REFUSED:
            return f"its agent is refused: {self.text}"
        if self.code == DOWN:
            return self.text
        return f"its agent cannot report: {self.text}"


def of_backend(row: models.Backend) -> Notice | None:
    """Return the notice in the row of a backend, None if there is none."""
    return of_columns(row.notice, row.notice_text, row.notice_at)


def of_columns(code: str | None, text: str | None, at: datetime.datetime | None) -> Notice | None:
    """Return the notice that the columns of a backend have, None if there is none."""
    return None if code is None or at is None else Notice(code, text or "", at)


def state_reason(
    silence: float | None, notice: Notice | None, down_time: float, *, is_reported_down: bool = False
) -> str | None:
    """Return why a backend is down, or may be down soon; None for a backend that reports.

    ``silence`` is that of :func:`~tonnage.ledger.models.silence`. The backend is down after ``down_time`` seconds, or
    if its driver reports so.
    """
    reasons = [] if notice is None else [notice.sentence]
    if is_reported_down:
        reasons.append("its driver reports backend_state down")
    if silence is None and (notice is None or notice.code != DOWN):
        reasons.insert(0, "it has never reported")
    elif silence is not None and silence > down_time:
        reasons.insert(0, f"no report for {silence:.0f} s")
    return "; ".join(reasons) or None


def record(session: orm.Session, name: str, *, epoch: int, seq: int, code: str, text: str) -> None:
    """Record a notice of the agent of a backend.

    Nothing changes if ``epoch`` is not the backend's, if a report with a number from ``seq`` on is recorded, or if the
    agent serves the backend no more. The end of its service is recorded whatever it has reported.
    """
    backend = models.Backend
    text = _shortened(text)
    is_news = sa.or_(
        backend.notice.is_(None),
        sa.and_(backend.notice.not_in(ENDED), sa.or_(backend.notice != code, backend.notice_text != text)),
    )
    statement = sa.update(backend).where(backend.name == name, backend.epoch == epoch, is_news)
    if code not in ENDED:
        statement = statement.where(backend.report_seq < seq)
    _set(session, statement, code, text)


def record_refusal(session: orm.Session, name: str, text: str) -> None:
    """Record that the agent of a backend is refused, and why. A backend without a row, which never joined, has none."""
    backend = models.Backend
    text = _shortened(text)
    is_news = sa.or_(backend.notice.is_(None), backend.notice != REFUSED, backend.notice_text != text)
    _set(session, sa.update(backend).where(backend.name == name, is_news), REFUSED, text)


def _shortened(text: str) -> str:
    """Return a text on one line; a long one without its middle."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST_TEXT:
        return line
    return f"{line[: _LONGEST_TEXT - _LONGEST_END - 5]} ... {line[-_LONGEST_END:]}"


def _set(session: orm.Session, statement: sa.Update, code: str, text: str) -> None:
    values = statement.values(notice=code, notice_text=text, notice_at=models.utcnow())
    session.execute(values.execution_options(synchronize_session=False))
