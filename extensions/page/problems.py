# SPDX-License-Identifier: Apache-2.0
"""The problems that an operator has to look at, the worst first, each with the command that shows all of it."""

import shlex
from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import orm

from tonnage.extensions.page.overview_bodies import BackendOverview, PoolOverview, Problem, ProblemSubject
from tonnage.extensions.page.severity import Severity
from tonnage.ledger.catalog import refusals
from tonnage.ledger.catalog.refusals import RefusalFilter
from tonnage.ledger.inventory import drains, volume_figures

#: Most subjects of one problem; the command shows all.
_MAX_SUBJECTS = 5

#: Days within which a pool that will be full is a problem, as in the alert ``TonnagePoolFullSoon``.
SOON_DAYS = 14

#: Seconds after which a claim waits, as in the alert ``TonnageClaimPfailing``.
WAITING_SECONDS = 3600.0

#: The command that shows all backends.
_BACKENDS = ("tonnage", "backends")

#: The command that shows the state of the ledger.
_STATUS = ("tonnage-status", "upgrade", "check")

#: The seconds of the refusals that are a problem.
_DAY_SECONDS = 86400.0


def load(
    session: orm.Session,
    pools: Sequence[PoolOverview],
    backends: Sequence[BackendOverview],
    down_time: float,
    refusal: str | None = None,
    absent: Collection[str] = (),
) -> list[Problem]:
    """Return the problems of all pools and backends, and those that the ledger shows, by one session.

    A backend is down after ``down_time`` seconds of silence. ``absent`` are the names of the pools with volumes that
    are no longer reported. ``refusal`` is the cause if the ledger cannot be written: then no backend is silent, but no
    report of it can be recorded.
    """
    return [
        *_of_ledger(refusal),
        *_of_backends([] if refusal else backends),
        *_of_pools(pools),
        *_of_absent_pools([pool for pool in pools if pool.name in absent]),
        *_drains(session),
        *_claims(session, down_time),
        *_refusals(session),
        *_soon(pools),
    ]


def _problem(problem: str, subjects: Sequence[ProblemSubject], *command: str) -> Iterable[Problem]:
    """Yield the problem if it has subjects."""
    if subjects:
        first = list(subjects[:_MAX_SUBJECTS])
        yield Problem(problem=problem, count=len(subjects), subjects=first, command=shlex.join(command))


def _of_ledger(refusal: str | None) -> Iterable[Problem]:
    if refusal is not None:
        text = f"cannot be written ({refusal}); no request succeeds, and no report can be recorded"
        yield from _problem("ledger_unwritable", [ProblemSubject(name="ledger", text=text)], *_STATUS)


def _of_backends(backends: Sequence[BackendOverview]) -> Iterable[Problem]:
    down = [
        ProblemSubject(name=backend.name, text=backend.state_reason or "")
        for backend in backends
        if backend.state == "down"
    ]
    yield from _problem("backends_down", down, *_BACKENDS)
    failing = [
        ProblemSubject(name=backend.name, text=backend.state_reason)
        for backend in backends
        if backend.state == "up" and backend.state_reason is not None
    ]
    yield from _problem("backends_failing", failing, *_BACKENDS)


def _of_pools(pools: Sequence[PoolOverview]) -> Iterable[Problem]:
    """Yield the problems that the current figures of pools show. Those of a backend that is down are its problem."""
    over = [pool for pool in pools if pool.severity == Severity.OVER]
    yield from _problem(
        "pools_over_limit", [ProblemSubject(name=pool.name, text=_excess(pool)) for pool in over], *_show(over)
    )
    full = [pool for pool in pools if pool.severity == Severity.FULL]
    yield from _problem(
        "pools_full", [ProblemSubject(name=pool.name, text="no volume of 1 GiB fits") for pool in full], *_show(full)
    )
    stale = [pool for pool in pools if pool.stale and pool.state != "down"]
    yield from _problem(
        "pools_stale",
        [ProblemSubject(name=pool.name, text=pool.state_reason or "") for pool in stale],
        *_show(stale),
    )


def _of_absent_pools(pools: Sequence[PoolOverview]) -> Iterable[Problem]:
    subjects = [ProblemSubject(name=pool.name, text=pool.state_reason or "") for pool in pools]
    return _problem("pools_absent", subjects, *(_show(pools) if pools else ()))


def _show(pools: Sequence[PoolOverview]) -> tuple[str, ...]:
    """Return the command that shows some pools."""
    return ("tonnage", "pool", pools[0].name) if len(pools) == 1 else ("tonnage", "pools")


def _excess(pool: PoolOverview) -> str:
    """Return the bounds that a pool exceeds, in words."""
    bounds = (
        ("physical", pool.physical_severity, pool.physical_excess_gb, "its total less the reserve"),
        ("promised", pool.promised_severity, pool.promise_excess_gb, "its limit"),
    )
    return ", ".join(
        f"{bound} {_gib(excess)} over {limit}" for bound, severity, excess, limit in bounds if severity == Severity.OVER
    )


def _gib(capacity: float | str) -> str:
    """Return a capacity with at most two decimals."""
    return f"{float(capacity):,.2f}".rstrip("0").rstrip(".") + " GiB"


def _drains(session: orm.Session) -> Iterable[Problem]:
    """Yield the backends that are drained and still have volumes."""
    waiting = [
        ProblemSubject(name=name, text=drain.text) for name, drain in drains.load(session).items() if drain.volumes
    ]
    return _problem("drains_waiting", waiting, *_BACKENDS)


def _claims(session: orm.Session, down_time: float) -> Iterable[Problem]:
    waiting = [
        ProblemSubject(
            name=claim.volume_id,
            text=f"{claim.verb} in {claim.pool}" + (f", waits for {claim.waits_for}" if claim.waits_for else ""),
            volume_id=claim.volume_id,
        )
        for claim in volume_figures.open_claims(session, down_time, least_age=WAITING_SECONDS)
    ]
    return _problem("claims_waiting", waiting, "tonnage", "claims")


def _refusals(session: orm.Session) -> Iterable[Problem]:
    number = refusals.count_lately(session, _DAY_SECONDS)
    if number == 0:
        return
    last = refusals.load(session, RefusalFilter(), min(number, _MAX_SUBJECTS))
    yield Problem(
        problem="refusals",
        count=number,
        subjects=[
            ProblemSubject(name=f"{row.verb} {row.request}", text=row.message, volume_id=row.volume_id) for row in last
        ],
        command="tonnage refusals --summary",
    )


def _soon(pools: Sequence[PoolOverview]) -> Iterable[Problem]:
    """Yield the pools that will be full soon; those that are full now are another problem."""
    soon = sorted(
        (pool for pool in pools if not pool.stale and 0 < (pool.full_in_days or 0) <= SOON_DAYS),
        key=lambda pool: pool.full_in_days or 0,
    )
    return _problem(
        "pools_full_soon",
        [ProblemSubject(name=pool.name, text=pool.forecast or "") for pool in soon],
        *("tonnage", "forecast", "--within", str(SOON_DAYS)),
    )
