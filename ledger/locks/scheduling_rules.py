# SPDX-License-Identifier: Apache-2.0
"""The rules that all schedulers share.

These are the default ratio and the calculation, from which the limits of pools follow, and the names of the extensions
whose hooks take part in transactions.

The rules are one row, changed only under its lock. The same transaction writes the new generation to all backends. A
scheduler that books on a backend or applies its report compares that generation with its own, in statements that lock
the backend's row anyway. So from that transaction on nothing takes effect that follows from older rules, even if the
scheduler was suspended for long or its clock is wrong.

Every function here raises :class:`~tonnage.capacity.errors.LedgerMoved` if a copy of the ledger is used instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.locks import heartbeats, ledger_identity
from tonnage.ledger.locks.heartbeats import SchedulerProcess

_GENERATION = sa.select(models.table(models.Rules).c.generation)


class RulesChanged(Exception):
    """The schedulers have agreed on other rules. The transaction has written nothing."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in the ledger. ``generation`` grows with each change."""

    default_ratio: str
    calculation: str
    hook_extensions: str
    generation: int


@dataclass(frozen=True, slots=True)
class Difference:
    """An option whose value here differs from that of another running scheduler, on ``host``."""

    option: str
    mine: str | None
    theirs: str | None
    host: str

    def __str__(self) -> str:
        return f"option {self.option} is {self.mine} here and {self.theirs} on scheduler {self.host}, which is up"


@dataclass(frozen=True, slots=True)
class Vote:
    """The result of a proposal: the generation of the rules, and the disagreeing schedulers.

    Without a disagreement the proposal has become the rules.
    """

    generation: int
    differences: Sequence[Difference]


def find(session: orm.Session) -> Rules | None:
    """Return the rules, or None if no scheduler has ever started."""
    rules = models.Rules
    row = session.execute(
        sa.select(rules.default_ratio, rules.calculation, rules.hook_extensions, rules.generation)
    ).one_or_none()
    if row is None:
        return None
    if row.generation < 0:
        raise ledger_identity.moved(session)
    return Rules(row.default_ratio, row.calculation, row.hook_extensions, int(row.generation))


def lock_shared(session: orm.Session) -> int:
    """Lock the rules against changes until the transaction ends, and return their generation."""
    generation = session.scalar(sa.select(models.Rules.generation).with_for_update(read=True)) or 0
    if generation < 0:
        raise ledger_identity.moved(session)
    return generation


def read_generation(session: orm.Session) -> int:
    """Return the generation of the rules."""
    generation = session.connection().scalar(_GENERATION) or 0
    if generation < 0:
        raise ledger_identity.moved(session)
    return generation


def require_generation(session: orm.Session, generation: int) -> None:
    """Raise :class:`RulesChanged` if the rules have another generation."""
    if read_generation(session) != generation:
        raise RulesChanged


def register_scheduler(session: orm.Session, me: SchedulerProcess, down_time: float) -> int:
    """Record that a scheduler starts, and return the generation of the rules, which must be its own.

    If it is the only running scheduler, its rules become the rules. Raises
    :class:`~tonnage.capacity.errors.ConfigurationError` if the rules differ and another scheduler is up. Source: the
    spec "Over Subscription in Thin Provisioning", which wants a consistent default across all scheduler nodes.
    """
    row = _lock(session, me)
    other_schedulers = _others(session, me, down_time)
    if other_schedulers:
        if differences := _compare(me, row, other_schedulers[0].host):
            raise errors.ConfigurationError(
                f"{differences[0]}; it has to be the same for all: correct it here, or stop the others first "
                f"(after a crash, wait service_down_time = {down_time:g} s)"
            )
    elif not _matches(row, me):
        _change(session, row, me)
    heartbeats.heartbeat(session, me)
    return row.generation


def propose_rules(
    session: orm.Session, me: SchedulerProcess, down_time: float, before: SchedulerProcess | None = None
) -> Vote:
    """Propose the rules of ``me``; they take effect once all running schedulers propose the same.

    A scheduler that proposes takes no decision until then. Once the rules are accepted it uses them, even if another
    scheduler proposes something else later. To end the wait, a scheduler passes its earlier rules as ``before``: if the
    proposal is still not accepted, it is withdrawn.
    """
    row = _lock(session, me)
    heartbeats.heartbeat(session, me)
    if _matches(row, me):
        return Vote(row.generation, ())
    differences = [
        difference for other in _others(session, me, down_time) for difference in _compare(me, other, other.host)
    ]
    if not differences:
        _change(session, row, me)
    elif before is not None:
        heartbeats.heartbeat(session, before)
    return Vote(row.generation, differences)


def _lock(session: orm.Session, me: SchedulerProcess) -> models.Rules:
    """Return the rules' row, locked. The very first scheduler inserts it."""
    rows = sa.select(models.Rules).with_for_update()
    row = session.scalar(rows)
    if row is None:
        try:
            with session.begin_nested():
                session.add(
                    models.Rules(
                        id=1,
                        default_ratio=me.default_ratio,
                        calculation=me.calculation,
                        hook_extensions=me.hook_extensions,
                        generation=0,
                    )
                )
        except db_exc.DBDuplicateEntry:  # another scheduler has inserted it
            pass
        row = session.scalars(rows).one()
    if row.generation < 0:
        raise ledger_identity.moved(session)
    return row


def _matches(row: models.Rules, me: SchedulerProcess) -> bool:
    return (row.default_ratio, row.calculation, row.hook_extensions) == (
        me.default_ratio,
        me.calculation,
        me.hook_extensions,
    )


def _change(session: orm.Session, row: models.Rules, me: SchedulerProcess) -> None:
    assert me.default_ratio is not None  # noqa: S101  -- only agents have no rules
    assert me.calculation is not None  # noqa: S101
    row.default_ratio, row.calculation = me.default_ratio, me.calculation
    row.hook_extensions = me.hook_extensions
    row.generation += 1
    session.flush()
    backend = models.Backend
    # In the one order of locks. This waits for transactions that book or report by the earlier rules.
    session.execute(sa.select(backend.id).order_by(backend.id).with_for_update()).all()
    session.execute(
        sa.update(backend).values(rules_generation=row.generation).execution_options(synchronize_session=False)
    )


def _others(session: orm.Session, me: SchedulerProcess, down_time: float) -> list[heartbeats.ServiceRow]:
    """Return the other running schedulers that have rules, by host."""
    return [
        row
        for row in heartbeats.load(session)
        if row.binary == me.binary and row.host != me.host and row.up(down_time) and row.default_ratio is not None
    ]


def _compare(me: SchedulerProcess, other: models.Rules | heartbeats.ServiceRow, host: str) -> list[Difference]:
    return [
        Difference(option, mine, theirs, host)
        for option, mine, theirs in (
            ("max_over_subscription_ratio", me.default_ratio, other.default_ratio),
            ("over_provisioning_calculation", me.calculation, other.calculation),
            ("enabled_extensions", _listed(me.hook_extensions), _listed(other.hook_extensions)),
        )
        if mine != theirs
    ]


def _listed(hook_extensions: str) -> str:
    """Return the extensions that take part in transactions, for errors."""
    return hook_extensions or "without hooks in transactions"
