# SPDX-License-Identifier: Apache-2.0
"""The reasons why Cinder does not use backends, as its schedulers see them in the rows of its services."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.ledger import models
from tonnage.ledger.locks import backend_notices

#: The reason for a backend that the other system does not have any more.
_GONE = "it has no service in Cinder"


class Service(NamedTuple):
    """A cinder-volume of a backend. ``disabled`` and ``frozen`` are those of its cluster, if it has one.

    It is ``alive`` if its last heartbeat is younger than Cinder's ``service_down_time``.
    """

    backend: str
    disabled: bool
    frozen: bool
    alive: bool

    @property
    def problem(self) -> str | None:
        """The reason why Cinder's schedulers leave out the service, None if they do not."""
        if self.frozen:  # it is disabled as well
            return "its service in Cinder is frozen"
        if self.disabled:
            return "its service in Cinder is disabled"
        return None if self.alive else "its service in Cinder is down"


class Problem(NamedTuple):
    """A backend, and the reason why Cinder does not use it; ``text`` is None if Cinder uses it."""

    backend_id: int
    text: str | None


def of_services(services: Iterable[Service]) -> dict[str, str | None]:
    """Return the reason why Cinder does not use a backend, None if it does, by the names of all backends.

    One usable service of a cluster is enough.
    """
    problems: dict[str, str | None] = {}
    for service in services:
        if problems.setdefault(service.backend, service.problem) is not None:
            problems[service.backend] = service.problem
    return problems


def changes(session: orm.Session, problems: Mapping[str, str | None]) -> list[Problem]:
    """Return the ``problems``, by the names of all backends of Cinder, that the ledger does not have yet."""
    backend = models.Backend
    rows = session.execute(
        sa.select(backend.id, backend.name, backend.notice_text).where(backend.observed.is_(True)).order_by(backend.id)
    )
    current = [(backend_id, problems.get(name, _GONE), recorded) for backend_id, name, recorded in rows]
    return [Problem(backend_id, problem) for backend_id, problem, recorded in current if problem != recorded]


def record(session: orm.Session, problem: Problem) -> None:
    """Record a problem, or its end."""
    backend = models.Backend
    is_over = problem.text is None
    session.execute(
        sa.update(backend)
        .where(backend.id == problem.backend_id)
        .values(
            notice=None if is_over else backend_notices.DOWN,
            notice_text=problem.text,
            notice_at=None if is_over else models.utcnow(),
        )
        .execution_options(synchronize_session=False)
    )
