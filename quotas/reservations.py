# SPDX-License-Identifier: Apache-2.0
"""Reservations of quota for a batch of requests, made and used in the transaction that books the batch.

A reservation has no row of its own. It exists as the booked volume or the pending claim, so it is used with the claim
or not at all, and ends with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import orm

from tonnage.quotas import limits, quota_check, usage_counters
from tonnage.quotas.external_usage import NO_EXTERNAL_USAGE
from tonnage.quotas.limits import Limits, Scope
from tonnage.quotas.options import Settings
from tonnage.quotas.quota_check import Demand, QuotaBudget, QuotaChanged, Usage


@dataclass(frozen=True, slots=True)
class ReservedQuota:
    """The limits, and the usage when it was read; ``external`` is the usage, in GiB, outside the ledger's volumes."""

    limits: Limits
    used: dict[Scope, Usage]
    external: dict[Scope, int]

    def budget(self) -> QuotaBudget:
        """Return the budget of requests, with nothing taken from it yet."""
        return QuotaBudget(self.limits, self.used, self.external)


def reserve(
    session: orm.Session, settings: Settings, demands: Sequence[Demand], *, contested: bool = False
) -> ReservedQuota:
    """Read the limits for the requests' demands, and the usage that counts against them.

    Nothing is locked if there are no limits, or if all demands fit by the counters and ``contested`` is False.
    Otherwise the counters are locked, and exceeded counters are recounted: a refusal must rest on the volumes
    themselves. A caller that locks other rows before :func:`consume` must set ``contested``.

    Raises :class:`~tonnage.quotas.quota_check.QuotaChanged` for a scope without a counter row.
    """
    if not demands:
        return ReservedQuota(Limits(settings.defaults), {}, {})
    found = limits.read(session, settings.defaults, {demand.project_id for demand in demands})
    asked = quota_check.limited_demands(found, demands)
    if not asked:
        return ReservedQuota(found, {}, {})
    external = _external_usage(settings, asked)
    if not contested:
        used = usage_counters.read(session, asked, settings.counter_lifetime)
        if _fit(found, asked, used, external) == asked.keys():
            return _held(found, used, external)
    usage_counters.lock(session, asked)
    used = usage_counters.read(session, asked, settings.counter_lifetime)
    stale = asked.keys() - _fit(found, asked, used, external)
    if stale:
        used.update(usage_counters.recount(session, stale, settings.placed_only))
    return _held(found, used, external)


def preview(session: orm.Session, settings: Settings, demands: Sequence[Demand]) -> ReservedQuota:
    """Return the result of :func:`reserve`, counted from the volumes and without locks, to answer a query."""
    found = limits.read(session, settings.defaults, {demand.project_id for demand in demands})
    asked = quota_check.limited_demands(found, demands)
    return _held(found, usage_counters.count(session, asked, settings.placed_only), _external_usage(settings, asked))


def consume(session: orm.Session, given: QuotaBudget) -> None:
    """Add the reserved quota to the counters. Call it before all other locks, except those of :func:`reserve`.

    Raises :class:`~tonnage.quotas.quota_check.QuotaChanged` if the quota has been used by other transactions.
    """
    if not usage_counters.add(session, given.taken, given.limits, given.external):
        raise QuotaChanged("others were faster")


def _external_usage(settings: Settings, scopes: Iterable[Scope]) -> dict[Scope, int]:
    """Return the external usage by scope, read once for a transaction: it may change at any moment."""
    if settings.external_usage is NO_EXTERNAL_USAGE:
        return {}
    return {scope: settings.external_usage.used_gb(scope) for scope in scopes}


def _held(found: Limits, used: Mapping[Scope, Usage], external: dict[Scope, int]) -> ReservedQuota:
    return ReservedQuota(
        found, {scope: each.plus(Usage(0, external.get(scope, 0))) for scope, each in used.items()}, external
    )


def _fit(
    found: Limits, asked: Mapping[Scope, Usage], used: Mapping[Scope, Usage], external: Mapping[Scope, int]
) -> set[Scope]:
    """Return the scopes in which all demands fit."""
    return {
        scope
        for scope, so_far in used.items()
        if quota_check.fits(found, scope, so_far.plus(Usage(0, external.get(scope, 0))), asked[scope])
    }
