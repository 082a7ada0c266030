# SPDX-License-Identifier: Apache-2.0
"""The ledger's rules, each with a small change of the code that takes it away, and the tests that guard it."""

import dataclasses
from collections.abc import Sequence

MODEL = "tests/unit/scheduler/test_model.py"
BOOKINGS = "tests/unit/ledger/test_bookings.py"
PLACEMENT = "tests/unit/scheduler/test_placement.py"
INTAKE = "tests/unit/scheduler/test_intake.py"
RESOLUTION = "tests/unit/scheduler/test_resolution.py"
GROUPS = "tests/unit/scheduler/test_groups.py"
BACKEND_AGENT = "tests/unit/agent/test_backend_agent.py"
OPERATIONS = "tests/unit/agent/test_operations.py"
SHARED = "tests/unit/ledger/test_counters.py"
EPOCHS = "tests/unit/ledger/test_epochs.py"


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A rule, the text in a file that keeps it, what stands there without it, and the tests that have to notice."""

    rule: str
    file: str
    old: str
    new: str
    tests: Sequence[str] = (MODEL,)
    #: One of those that are tried where there is little time.
    quick: bool = False


MUTATIONS = (
    Mutation(
        "conditional update: provisioned capacity stays below the limit",
        "ledger/bookings.py",
        'promised + given("thin_sum") <= _POOL.thin_limit_gb + TOLERANCE_GB',
        "sa.true()",
        (BOOKINGS,),
        quick=True,
    ),
    Mutation(
        "conditional update: thick volumes stay below what is free",
        "ledger/bookings.py",
        'given("thick_sum") <= left + TOLERANCE_GB',
        "sa.true()",
        (BOOKINGS,),
    ),
    Mutation(
        "conditional update: a thin volume stays below what is free times the ratio",
        "ledger/bookings.py",
        'fits = given("largest") <= (left - given("before")) * _POOL.ratio + TOLERANCE_GB\n            conditions',
        "fits = sa.true()\n            conditions",
        (BOOKINGS,),
    ),
    Mutation(
        "conditional update: what external volumes have counts",
        "ledger/bookings.py",
        "_POOL.allocated_capacity_gb + _POOL.shared_allocated_gb + _POOL.external_gb",
        "_POOL.allocated_capacity_gb + _POOL.shared_allocated_gb",
        (BOOKINGS,),
    ),
    Mutation(
        "conditional update: what others on the storage have counts",
        "ledger/bookings.py",
        "_POOL.provisioned_capacity_gb + _POOL.in_flight_gb + _POOL.shared_in_flight_gb",
        "_POOL.provisioned_capacity_gb + _POOL.in_flight_gb",
        (BOOKINGS,),
    ),
    Mutation(
        "the generation that the decision saw is compared",
        "ledger/bookings.py",
        '        _POOL.generation == sa.bindparam("seen"),\n',
        '        sa.or_(sa.true(), _POOL.generation == sa.bindparam("seen")),\n',
        (INTAKE, BOOKINGS),
    ),
    Mutation(
        "nothing is booked on a backend that is closed",
        "ledger/counters.py",
        "    models.Backend.enabled.is_(True),\n    models.Backend.draining.is_(False),\n",
        "",
        (BOOKINGS,),
    ),
    Mutation(
        "claims are spread to the others on the storage",
        "ledger/bookings.py",
        "counters.spread(session, terms.storage_id, terms.pool_id, terms.size, terms.physical)",
        "pass",
        (BOOKINGS,),
        quick=True,
    ),
    Mutation(
        "pools of one storage see each other within a batch",
        "ledger/bookings.py",
        "if mixed or shares:",
        "if mixed:",
        (BOOKINGS,),
    ),
    Mutation(
        "the key of a request is looked up",
        "scheduler/placement.py",
        "known = request_keys.find(session, [key for item in work if (key := key_of(item))])",
        "known = {}",
        (BOOKINGS,),
    ),
    Mutation(
        "the key of a request is kept",
        "ledger/request_keys.py",
        "    if not keys:\n        return\n    session",
        "    if keys:\n        return\n    session",
        (BOOKINGS,),
    ),
    Mutation(
        "a volume is moved only from where the decision saw it",
        "ledger/bookings.py",
        '        _VOLUME.pool_id == sa.bindparam("from_pool"),\n',
        '        sa.or_(sa.true(), _VOLUME.pool_id == sa.bindparam("from_pool")),\n',
        (BOOKINGS,),
    ),
    Mutation(
        "containment is looked at when a report is applied",
        "ledger/reports.py",
        'sa.and_(_CLAIM.c.end_epoch == sa.bindparam("epoch"), _CLAIM.c.end_tick < sa.bindparam("covers")),',
        'sa.and_(_CLAIM.c.end_epoch == sa.bindparam("epoch"), sa.bindparam("covers") >= 0),',
        (SHARED,),
        quick=True,
    ),
    Mutation(
        "containment is looked at when a confirmation arrives",
        "ledger/endings.py",
        "return (ending.epoch, ending.tick) < self.locked.covers[claim.pool_id]",
        "return True",
        (SHARED,),
    ),
    Mutation(
        "a claim of an older epoch is contained",
        "ledger/reports.py",
        '        _CLAIM.c.end_epoch < sa.bindparam("epoch"),\n',
        '        _CLAIM.c.end_epoch > sa.bindparam("epoch"),\n',
        (MODEL,),
    ),
    Mutation(
        "a report of another epoch is not applied",
        "ledger/reports.py",
        "known = (epoch, seq, rules) == (report.epoch, report.base, report.rules)",
        "known = (seq, rules) == (report.base, report.rules)",
        (SHARED,),
    ),
    Mutation(
        "a report that comes late is not applied",
        "ledger/reports.py",
        "if known and seq < report.seq and covers <= report.covers:",
        "if known and covers <= report.covers:",
        (SHARED,),
    ),
    Mutation(
        "a report does not cover less than the one before",
        "ledger/reports.py",
        "if known and seq < report.seq and covers <= report.covers:",
        "if known and seq < report.seq:",
        (SHARED,),
    ),
    Mutation(
        "a report was compared with the one that was applied last",
        "ledger/reports.py",
        "known = (epoch, seq, rules) == (report.epoch, report.base, report.rules)",
        "known = (epoch, rules) == (report.epoch, report.rules)",
        (SHARED,),
    ),
    Mutation(
        "a failure drops a claim at once only if it was verified as clean",
        "ledger/endings.py",
        "verified_clean = ending.clean and not ending.ok",
        "verified_clean = not ending.ok",
        (SHARED,),
    ),
    Mutation(
        "what a failed create has left stays counted",
        "ledger/endings.py",
        "        if ending.size_gb > 0:\n            # It has failed, and",
        "        if False:\n            # It has failed, and",
        (PLACEMENT,),
    ),
    Mutation(
        "a claim ends once",
        "ledger/endings.py",
        "        elif claim.state == counters.PENDING:\n",
        "        else:\n",
        (SHARED,),
    ),
    Mutation(
        "an ending of a past epoch is ignored",
        "ledger/endings.py",
        "if by_id[claim.id].epoch != work.locked.epochs[claim.backend_id]:",
        "if False:",
        (EPOCHS,),
    ),
    Mutation(
        "an abandoned claim stays counted",
        "ledger/counters.py",
        "LIVE = (PENDING, CONFIRMED, ABANDONED)",
        "LIVE = (PENDING, CONFIRMED)",
        (SHARED,),
    ),
    Mutation(
        "what an abandoned claim may have made is purged",
        "ledger/endings.py",
        "        claim.state = counters.ABANDONED\n        self._purge(claim, claim.pool_id)\n",
        "        claim.state = counters.ABANDONED\n",
        (SHARED,),
    ),
    Mutation(
        "where a volume was moved from stays counted until it is purged",
        "ledger/endings.py",
        "            self._purge(claim, claim.source_pool_id)\n",
        "            self._release(claim, ending)\n",
        (SHARED,),
    ),
    Mutation(
        "no volume is moved to a pool that still holds a copy of it",
        "scheduler/resolution.py",
        "attempted=lookup.copies.get(volume.id, frozenset()) | {volume.pool.name},",
        "attempted=frozenset([volume.pool.name]),",
        (RESOLUTION,),
    ),
    Mutation(
        "stamps tell what the figures of another backend contain",
        "ledger/counters.py",
        "return claim.end_stamp is not None and bool(claim.end_stamp <= pool.covers_stamp)",
        "return True",
        (SHARED,),
        quick=True,
    ),
    Mutation(
        "a claim that ends is given the stamp of the next look",
        "ledger/endings.py",
        "self.stamps.get(storage_id, 0) + 1",
        "self.stamps.get(storage_id, 0)",
        (SHARED,),
    ),
    Mutation(
        "what is released counts for the others on the storage until they have seen it",
        "ledger/counters.py",
        "                size += one.size_gb\n                physical += one.physical_gb\n",
        "                size += one.size_gb if one.state in LIVE else 0\n"
        "                physical += one.physical_gb if one.state in LIVE else 0\n",
        (SHARED,),
    ),
    Mutation(
        "external volumes of the others on the storage count",
        "ledger/counters.py",
        "int(row.allocated_capacity_gb) + math.ceil(row.external_gb)",
        "int(row.allocated_capacity_gb)",
        (SHARED,),
    ),
    Mutation(
        "a group is fitted jointly",
        "scheduler/groups.py",
        "        self.pools.claim(index, size, physical)\n        self._count(index, 1)\n"
        "        self._placed[number] = (index, size, physical)",
        "        self._placed[number] = (index, 0.0, 0.0)",
        (GROUPS,),
    ),
    Mutation(
        "of a group none is placed if one is left over",
        "scheduler/deciding.py",
        "            answer = GroupAnswer(refusal=found)\n",
        "            answer = GroupAnswer(refusal=found)\n"
        "            if isinstance(alone := self._fits(members[0].request), Placement):\n"
        "                self._plan(resolved[0], alone, batch)\n",
        (GROUPS,),
    ),
    Mutation(
        "a group that does not fit in order is arranged otherwise",
        "scheduler/groups.py",
        "if self._tightly(by_size) or self._search(by_size):",
        "if False:",
        (GROUPS,),
    ),
    Mutation(
        "an agent runs nothing of another epoch",
        "agent/operations.py",
        "if epoch is None or command.epoch != epoch.number:",
        "if epoch is None:",
        (BACKEND_AGENT,),
    ),
    Mutation(
        "an agent runs each claim at most once",
        "agent/operations.py",
        "record = self._records.get(command.claim_id)",
        "record = None",
        (OPERATIONS,),
    ),
    Mutation(
        "an agent makes nothing for what has been deleted",
        "agent/operations.py",
        "        elif command in self._gone:\n",
        "        elif False:\n",
        (OPERATIONS,),
    ),
    Mutation(
        "an agent takes the tick of a report before it looks",
        "agent/epoch.py",
        "return next(self._reports), next(self._ticks)",
        "return next(self._reports), next(self._ticks) + 3",
        (MODEL,),
    ),
    Mutation(
        "an agent that shares a storage asks for stamps before it looks",
        "agent/looks.py",
        "if not found <= self._storages and (stamps := self._stamps(found)):",
        "if stamps := self._stamps(found):\n            pass\n        if False:",
        (BACKEND_AGENT,),
    ),
)
