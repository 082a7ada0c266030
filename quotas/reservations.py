# SPDX-License-Identifier: Apache-2.0
"""Reservations: what a batch of requests may take of quotas, held and used in the transaction that books it.

Nothing is kept of a reservation but what it is for: the volume that was booked, the growth or the new type that is
under way. So it is used with the claim or not at all, and ends with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import orm

from tonnage.quotas import limit_rows, quota_budget, usage_counters
from tonnage.quotas.external_usage import NOTHING
from tonnage.quotas.limits import Limits, Scope
from tonnage.quotas.options import Settings
from tonnage.quotas.quota_budget import Allowance, Demand, QuotaTaken, Used


@dataclass(frozen=True, slots=True)
class Held:
    """Limits, and how much counted against them when they were looked at: ``beyond``, in GiB, beside the volumes."""

    limits: Limits
    used: dict[Scope, Used]
    beyond: dict[Scope, int]

    def allowance(self) -> Allowance:
        """Return the budget of requests, with nothing taken from it yet."""
        return Allowance(self.limits, self.used, self.beyond)


def hold(session: orm.Session, settings: Settings, demands: Sequence[Demand], *, contested: bool = False) -> Held:
    """Look up what limits there are for what requests demand, and what counts against them.

    Nothing is locked where there is no limit. Where all fits by counters nothing is locked yet either, unless
    ``contested``; else counters are locked, and those that are in the way counted anew: to turn somebody away, only the
    volumes will do. Whoever is about to lock other things before :func:`take` has to call it contested.

    Raises :class:`~tonnage.quotas.quota_budget.QuotaTaken` for what was never limited before.
    """
    if not demands:
        return Held(Limits(settings.defaults), {}, {})
    found = limit_rows.read(session, settings.defaults, {demand.project_id for demand in demands})
    asked = quota_budget.binding(found, demands)
    if not asked:
        return Held(found, {}, {})
    beyond = _beyond(settings, asked)
    if not contested:
        used = usage_counters.read(session, asked, settings.counters_last)
        if _fit(found, asked, used, beyond) == asked.keys():
            return _held(found, used, beyond)
    usage_counters.lock(session, asked)
    used = usage_counters.read(session, asked, settings.counters_last)
    stale = asked.keys() - _fit(found, asked, used, beyond)
    if stale:
        used.update(usage_counters.recount(session, stale, settings.placed_only))
    return _held(found, used, beyond)


def look(session: orm.Session, settings: Settings, demands: Sequence[Demand]) -> Held:
    """Return what :func:`hold` does, by the volumes, and lock nothing: for a question."""
    found = limit_rows.read(session, settings.defaults, {demand.project_id for demand in demands})
    asked = quota_budget.binding(found, demands)
    return _held(found, usage_counters.count(session, asked, settings.placed_only), _beyond(settings, asked))


def take(session: orm.Session, given: Allowance) -> None:
    """Use what has been given. To be called before anything else is locked, but for what :func:`hold` has.

    Raises :class:`~tonnage.quotas.quota_budget.QuotaTaken` if others were faster.
    """
    if not usage_counters.add(session, given.taken, given.limits, given.beyond):
        raise QuotaTaken("others were faster")


def _beyond(settings: Settings, scopes: Iterable[Scope]) -> dict[Scope, int]:
    """Return what is used beside the volumes, once for a transaction: it may be read anew at any moment."""
    if settings.beside is NOTHING:
        return {}
    return {scope: settings.beside.beyond(scope) for scope in scopes}


def _held(found: Limits, used: Mapping[Scope, Used], beyond: dict[Scope, int]) -> Held:
    return Held(found, {scope: each.plus(Used(0, beyond.get(scope, 0))) for scope, each in used.items()}, beyond)


def _fit(
    found: Limits, asked: Mapping[Scope, Used], used: Mapping[Scope, Used], beyond: Mapping[Scope, int]
) -> set[Scope]:
    """Return the scopes in which there is room for all that is asked."""
    return {
        scope
        for scope, so_far in used.items()
        if quota_budget.fits(found, scope, so_far.plus(Used(0, beyond.get(scope, 0))), asked[scope])
    }
