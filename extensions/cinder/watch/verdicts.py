# SPDX-License-Identifier: Apache-2.0
"""Verdicts: each decision of Cinder's scheduler beside Tonnage's on the same request at the same moment."""

import enum
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.decision import Placement, Refusal
from tonnage.capacity.pools.pool import backend_of
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Operation, Request, requested_provisioning
from tonnage.extensions.cinder.decoding import cinder_messages
from tonnage.extensions.cinder.decoding.cinder_messages import MOVES, UNJUDGED, Command, UnjudgedRequest, Verb
from tonnage.extensions.cinder.decoding.cinder_rows import VolumeRow
from tonnage.extensions.cinder.watch.promised_capacity import PromisedCapacity
from tonnage.scheduler.requests.pool_selection import Rules

_OPERATIONS = {
    Verb.CREATE: Operation.CREATE,
    Verb.EXTEND: Operation.EXTEND,
    Verb.MIGRATE: Operation.MIGRATE,
    Verb.RETYPE: Operation.MIGRATE,
}

#: The status of a volume whose request waits for a decision, for each verb; a migration has a field of its own.
_WAITING = {Verb.CREATE: "creating", Verb.EXTEND: "extending", Verb.RETYPE: "retyping"}

#: The hints of requests that Tonnage's filters decide by without asking another service.
_HINTS = {"same_host", "different_host", "query"}

#: Seconds after which a request without a command or an end is forgotten: it was lost, or it takes unusually long.
_FORGOTTEN = 900.0


class Verdict(enum.StrEnum):
    """The relation of the two decisions."""

    #: Cinder's pool is one that Tonnage accepts.
    AGREED = "agreed"
    #: Tonnage refuses Cinder's pool, and has another one.
    OTHER_POOL = "other_pool"
    #: Cinder placed the volume, and Tonnage refuses it.
    WRONG_PLACEMENT = "wrong_placement"
    #: There is room in Cinder's pool only if its figures contain volumes that they may lack.
    DOUBTFUL = "doubtful"
    #: Both refuse.
    REFUSED = "refused"
    #: Cinder refused, and Tonnage has a pool, both when the request arrived and when its refusal was seen.
    WRONG_REFUSAL = "wrong_refusal"
    #: There are no figures, or the request depends on facts that the shadow cannot know.
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision of Cinder with the verdict. Durations are seconds.

    ``pool`` is Cinder's, None for a refusal, and ``tonnage_pool`` that of Tonnage; ``reason`` is Tonnage's refusal, or
    why the decision is not judged. ``cinder_seconds`` is the time from the request on the bus to the command.
    """

    verb: str
    request_id: str
    volume_id: str
    size_gb: int
    pool: str | None
    verdict: Verdict
    tonnage_pool: str | None
    reason: str
    cinder_seconds: float | None
    tonnage_seconds: float


@dataclass(frozen=True, slots=True)
class _Choice:
    """Tonnage's decision; ``problem`` if there is none."""

    pool: str | None
    reason: str
    seconds: float
    problem: str = ""


@dataclass(slots=True)
class _Waiting:
    """A request that waits for Cinder's decision. ``arrived`` is the shadow's monotonic time."""

    message: cinder_messages.Request
    arrived: float
    first: _Choice


class Judge:
    """Decides each request as Tonnage would, and compares when Cinder's decision is seen."""

    def __init__(self, promised: PromisedCapacity, rules: Rules) -> None:
        self._promised, self._rules = promised, rules
        self._waiting: dict[tuple[Verb, str], _Waiting] = {}
        self._problem = ""

    def pause(self, reason: str) -> list[Decided]:
        """Judge no decision until :meth:`resume`, neither the requests that wait, as the shadow missed messages."""
        self._problem = reason
        waiting, self._waiting = self._waiting, {}
        return [
            _unjudged(waiting_request.message, waiting_request.message.size_gb, reason)
            for waiting_request in waiting.values()
        ]

    def resume(self) -> None:
        """Judge the decisions on further requests."""
        self._problem = ""

    def unjudged(self, message: UnjudgedRequest) -> Decided:
        """Return the verdict on a request that is never judged."""
        return _unjudged(message, 0, UNJUDGED[message.verb])

    def request(self, message: cinder_messages.Request, now: float) -> None:
        """Decide a request that arrived at ``now``."""
        self._waiting[message.verb, message.volume_id] = _Waiting(message, now, self._choose(message))

    def command(self, command: Command, now: float) -> Decided | None:
        """Judge the command that follows a request; None if the request was not seen. The promise comes after this."""
        waiting = self._waiting.pop((command.verb, command.volume_id), None)
        if waiting is None:
            return None
        choice = self._choose(waiting.message)
        accepted, reason = (None, "") if choice.problem else self._accepts(waiting.message, command.pool)
        if accepted is None:
            verdict = Verdict.NOT_JUDGED
        elif accepted:
            verdict = Verdict.AGREED
        elif self._fits(waiting.message, self._promised.least_held(command.pool)):
            verdict = Verdict.DOUBTFUL
        else:
            verdict = Verdict.WRONG_PLACEMENT if choice.pool is None else Verdict.OTHER_POOL
        return Decided(
            verb=command.verb,
            request_id=waiting.message.request_id,
            volume_id=command.volume_id,
            size_gb=waiting.message.size_gb,
            pool=command.pool,
            verdict=verdict,
            tonnage_pool=choice.pool,
            reason=choice.problem or reason,
            cinder_seconds=now - waiting.arrived,
            tonnage_seconds=waiting.first.seconds,
        )

    def settle(self, volumes: Mapping[str, VolumeRow], began: float) -> list[Decided]:
        """Judge the requests that Cinder has refused, as the rows of their volumes show, and give up old ones.

        The read of the rows began at ``began``, and all messages that were sent before are known.
        """
        decisions = []
        for key, waiting in list(self._waiting.items()):
            if waiting.arrived >= began:
                continue
            row = volumes.get(waiting.message.volume_id)
            if row is not None and _is_refused(waiting.message.verb, row):
                del self._waiting[key]
                decisions.append(self._refused(waiting))
            elif began - waiting.arrived > _FORGOTTEN:
                del self._waiting[key]
                reason = f"neither a command nor a refusal followed within {_FORGOTTEN:.0f} s"
                decisions.append(_unjudged(waiting.message, waiting.message.size_gb, reason))
        return decisions

    def _refused(self, waiting: _Waiting) -> Decided:
        first, last = waiting.first, self._choose(waiting.message)
        if first.problem or last.problem:
            verdict = Verdict.NOT_JUDGED
        else:
            has_room = (
                first.pool is not None
                and last.pool is not None
                and self._fits(waiting.message, self._promised.most_held(last.pool))
            )
            verdict = Verdict.WRONG_REFUSAL if has_room else Verdict.REFUSED
        is_wrong = verdict is Verdict.WRONG_REFUSAL
        return Decided(
            verb=waiting.message.verb,
            request_id=waiting.message.request_id,
            volume_id=waiting.message.volume_id,
            size_gb=waiting.message.size_gb,
            pool=None,
            verdict=verdict,
            tonnage_pool=last.pool if is_wrong else None,
            reason=_failures(waiting.message) if is_wrong else _reason(first, last),
            cinder_seconds=None,
            tonnage_seconds=first.seconds,
        )

    def _choose(self, message: cinder_messages.Request) -> _Choice:
        """Return Tonnage's decision at this moment."""
        if self._problem:
            return _Choice(None, "", 0.0, self._problem)
        began = time.perf_counter()
        try:
            if not len(self._promised.table):
                raise errors.InvalidInput("no backend has reported yet")
            decision = self._rules.choose(self._promised.table, self._request(message))
        except errors.TonnageError as error:
            return _Choice(None, "", 0.0, error.message)
        seconds = time.perf_counter() - began
        if isinstance(decision, Placement):
            return _Choice(decision.pool, "", seconds)
        return _Choice(None, decision.message, seconds)

    def _accepts(self, message: cinder_messages.Request, pool: str) -> tuple[bool | None, str]:
        """Return whether Tonnage's filters accept a pool, None if it is unknown, and the reason if not."""
        table = self._promised.table
        index = table.index(pool)
        if index is None:
            return None, f"pool {pool} has not been reported"
        rules, request = self._rules_for(message, pool), self._request(message, pool)
        result = rules.filters.run(table, request)
        if result.remaining[index]:
            return True, ""
        refusal: Refusal = rules.filters.refusal(table, request, result)
        return False, refusal.message

    def _fits(self, message: cinder_messages.Request, pool: Pool | None) -> bool:
        """Return whether Tonnage's filters accept a pool with these figures."""
        if pool is None:
            return False
        filters = self._rules_for(message, pool.name).filters
        return bool(filters.candidates(PoolTable([pool]), self._request(message, pool.name)).any())

    def _rules_for(self, message: cinder_messages.Request, pool: str) -> Rules:
        """Return the rules for a pool: a volume that stays where it is needs no room."""
        return self._rules.without_room if pool == message.pool and message.verb is not Verb.EXTEND else self._rules

    def _request(self, message: cinder_messages.Request, pool: str | None = None) -> Request:
        """Return a request in Tonnage's terms, limited to ``pool`` if given.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for one that the shadow cannot judge.
        """
        if unknown := message.hints.keys() - _HINTS:
            raise errors.InvalidInput(f"the shadow does not know the hint {sorted(unknown)[0]}")
        specs = {str(key): str(value) for key, value in message.extra_specs.items()}
        target = message.pool if message.verb is Verb.EXTEND else message.target
        chosen = pool or (target if target is not None and "#" in target else None)
        attempted = set(message.attempted)
        if message.verb in MOVES and message.pool is not None and pool != message.pool:
            attempted.add(message.pool)
        return Request(
            request_id=message.request_id or message.volume_id,
            size_gb=message.size_gb,
            operation=_OPERATIONS[message.verb],
            provisioning=requested_provisioning(specs),
            volume_type=message.volume_type,
            extra_specs=specs,
            project_id=message.project_id,
            availability_zone=None if message.verb is Verb.EXTEND else message.availability_zone,
            hints=dict(message.hints),
            pool=chosen,
            backend=target if chosen is None else None,
            attempted=frozenset(attempted),
            same_backends=self._backends_of(message.hints.get("same_host")),
            different_backends=self._backends_of(message.hints.get("different_host")),
        )

    def _backends_of(self, hint: Any) -> frozenset[str] | None:
        """Return the backends of the volumes that a hint names, None without the hint."""
        if hint is None:
            return None
        rows = [
            self._promised.volumes.get(str(volume_id)) for volume_id in (hint if isinstance(hint, list) else [hint])
        ]
        if any(row is None or row.pool is None for row in rows):
            raise errors.InvalidInput("a hint names a volume whose row is not known")
        return frozenset(backend_of(row.pool) for row in rows if row is not None and row.pool is not None)


def _unjudged(message: cinder_messages.Request | UnjudgedRequest, size_gb: int, reason: str) -> Decided:
    return Decided(
        verb=message.verb,
        request_id=message.request_id,
        volume_id=message.volume_id,
        size_gb=size_gb,
        pool=None,
        verdict=Verdict.NOT_JUDGED,
        tonnage_pool=None,
        reason=reason,
        cinder_seconds=None,
        tonnage_seconds=0.0,
    )


def _reason(*choices: _Choice) -> str:
    """Return the first problem of these decisions, else the first reason for a refusal."""
    reasons = [choice.problem for choice in choices] + [choice.reason for choice in choices]
    return next(filter(None, reasons), "")


def _failures(message: cinder_messages.Request) -> str:
    """Return the earlier attempts of a request as text."""
    return f"it failed before in {', '.join(sorted(message.attempted))}" if message.attempted else ""


def _is_refused(verb: Verb, row: VolumeRow) -> bool:
    """Return whether the row of a volume shows that its request ended without a command."""
    if verb is Verb.CREATE:
        return row.status == "error" and row.pool is None
    if verb is Verb.MIGRATE:
        return row.migration_status == "error"
    return row.status != _WAITING[verb]
