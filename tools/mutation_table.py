# SPDX-License-Identifier: Apache-2.0
"""The mutations of the ledger's rules: each one changes a line of code that implements a rule, and names its tests."""

import dataclasses
from collections.abc import Sequence

MODEL = "tests/unit/scheduler/test_model.py"
CINDER_MODEL = "tests/unit/cinder_adapter/scheduler/test_cinder_model.py"
CLAIM_ENDS = "tests/unit/cinder_adapter/scheduler/test_claim_ends.py"
OBSERVED_CLAIMS = "tests/unit/ledger/claims/test_observed_claims.py"
CINDER_LEDGER = "tests/unit/cinder_adapter/scheduler/test_cinder_ledger.py"
PLACING = "tests/unit/cinder_adapter/scheduler/test_placing.py"
PROBES = "tests/unit/ledger/inventory/test_probes.py"
AFFINITY_ORDER = "tests/unit/scheduler/decisions/test_affinity_order.py"
BOOKINGS = "tests/unit/ledger/claims/test_bookings.py"
PLACER = "tests/unit/scheduler/decisions/test_placer.py"
REPORT_HANDLER = "tests/unit/scheduler/reports/test_report_handler.py"
REQUEST_SPEC = "tests/unit/scheduler/decisions/test_request_spec.py"
GROUP_PACKING = "tests/unit/scheduler/decisions/test_group_packing.py"
BACKEND_AGENT = "tests/unit/agent/test_backend_agent.py"
OPERATIONS = "tests/unit/agent/test_operations.py"
POOL_COUNTERS = "tests/unit/ledger/claims/test_pool_counters.py"
EPOCHS = "tests/unit/ledger/inventory/test_epochs.py"
RULES_AGREEMENT = "tests/unit/scheduler/cluster/test_rules_agreement.py"
DATABASE = "tests/unit/ledger/db/test_database.py"
DATABASE_COPY = "tests/unit/ledger/repair/test_database_copy.py"
GALERA = "tests/unit/ledger/db/test_galera.py"
DELETIONS = "tests/unit/ledger/claims/test_deletions.py"
DISPATCHER = "tests/unit/scheduler/claims/test_dispatcher.py"
OPERATION_OUTCOMES = "tests/unit/ledger/claims/test_operation_outcomes.py"
LISTINGS = "tests/unit/ledger/inventory/test_listings.py"
LOCK = "tests/unit/agent/test_lock.py"
LOST_COMMITS = "tests/unit/ledger/db/test_lost_commits.py"
MANAGED_VOLUMES = "tests/unit/ledger/claims/test_managed_volumes.py"
OUTBOX = "tests/unit/agent/test_outbox.py"
CLONES = "tests/unit/scheduler/decisions/test_clones.py"
REDELIVERY = "tests/unit/scheduler/decisions/test_redelivery.py"
SCHEDULING_RULES = "tests/unit/ledger/inventory/test_scheduling_rules.py"
PERIODIC_TASKS = "tests/unit/scheduler/claims/test_periodic_tasks.py"
TWO_SCHEDULERS = "tests/unit/scheduler/cluster/test_two_schedulers.py"
LAST_GIB = "tests/functional/test_contention.py::test_concurrent_requests_use_the_last_gib"
CAPACITY_RELEASED_BEFORE_BOOKING = (
    "tests/functional/test_contention.py::test_a_request_is_not_refused_while_a_report_or_outcome_frees_capacity"
)
IN_FLIGHT_SUMS = "tests/functional/test_contention.py::test_the_sum_of_in_flight_claims_includes_concurrent_claims"
LATE_LIMITS = "tests/functional/test_quotas.py"
KEYS_OF_REFUSALS = "tests/unit/scheduler/claims/test_periodic_tasks.py::test_keys_of_refusals_are_kept_for_a_short_time"
STORED_REFUSALS = "tests/functional/test_ledger.py::test_a_repeated_request_gets_the_same_refusal[sqlite]"
STORED_REQUEST_KEYS = "tests/functional/test_ledger.py::test_request_keys_outlive_their_volume_for_a_week[sqlite]"


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A change of the code that breaks one rule.

    ``old`` is the text in ``file`` that implements the rule, ``new`` its replacement, with which at least one of
    ``tests`` must fail.
    """

    rule: str
    file: str
    old: str
    new: str
    tests: Sequence[str] = (MODEL,)
    #: Whether ``--quick`` includes the mutation.
    quick: bool = False


MUTATIONS = (
    Mutation(
        "A booking keeps the provisioned capacity of a pool within its limit.",
        "ledger/claims/bookings.py",
        'promised + given("thin_sum") <= _POOL.thin_limit_gb + TOLERANCE_GB',
        "sa.true()",
        (BOOKINGS,),
        quick=True,
    ),
    Mutation(
        "A booking keeps the sum of thick volumes within the free capacity.",
        "ledger/claims/bookings.py",
        'given("thick_sum") <= left + TOLERANCE_GB',
        "sa.true()",
        (BOOKINGS,),
    ),
    Mutation(
        "A booking keeps a thin volume within the free capacity times the ratio.",
        "ledger/claims/bookings.py",
        'fits = given("largest") <= (left - given("before")) * _POOL.ratio + TOLERANCE_GB\n            conditions',
        "fits = sa.true()\n            conditions",
        (BOOKINGS,),
    ),
    Mutation(
        "A booking counts the capacity of external volumes.",
        "ledger/claims/bookings.py",
        "_POOL.allocated_capacity_gb + _POOL.shared_allocated_gb + _POOL.external_gb",
        "_POOL.allocated_capacity_gb + _POOL.shared_allocated_gb",
        (BOOKINGS,),
    ),
    Mutation(
        "A booking counts the in-flight capacity of other pools on the storage.",
        "ledger/claims/bookings.py",
        "_POOL.provisioned_capacity_gb + _POOL.in_flight_gb + _POOL.shared_in_flight_gb",
        "_POOL.provisioned_capacity_gb + _POOL.in_flight_gb",
        (BOOKINGS,),
    ),
    Mutation(
        "A booking requires the generation that its decision used.",
        "ledger/claims/bookings.py",
        '        _POOL.generation == sa.bindparam("seen"),\n',
        '        sa.or_(sa.true(), _POOL.generation == sa.bindparam("seen")),\n',
        (REPORT_HANDLER, BOOKINGS),
    ),
    Mutation(
        "A booking requires an enabled backend without a drain.",
        "ledger/claims/pool_counters.py",
        "    models.Backend.enabled.is_(True),\n    models.Backend.draining.is_(False),\n",
        "",
        (BOOKINGS,),
    ),
    Mutation(
        "A booking requires the current scheduling rules.",
        "ledger/claims/pool_counters.py",
        '    models.Backend.rules_generation == sa.bindparam("rules"),\n',
        '    models.Backend.rules_generation >= sa.bindparam("rules") - 99,\n',
        (RULES_AGREEMENT,),
    ),
    Mutation(
        "A batch of thin volumes requires free capacity for its largest volume only.",
        "ledger/claims/bookings.py",
        "max(largest.get(physical, 0), booking.size_gb)",
        "largest.get(physical, 0) + booking.size_gb",
        (BOOKINGS,),
    ),
    Mutation(
        "The over-subscription ratio does not limit thick volumes.",
        "ledger/claims/bookings.py",
        "            if all_bounded:\n",
        "            if all_bounded or not all_bounded:\n",
        (BOOKINGS,),
    ),
    Mutation(
        "A claim for a thick volume takes its full size of free capacity.",
        "scheduler/decisions/pool_selection.py",
        "return request.size_gb if placement.provisioning is Provisioning.THICK else min(request.size_gb, copied_gb)",
        "return min(request.size_gb, copied_gb)",
        (BOOKINGS,),
    ),
    Mutation(
        "A booking requires the limits of its decision.",
        "scheduler/decisions/placer.py",
        "            reservations.require_same_limits(session, self.quotas, held, wanted)\n",
        "            pass\n",
        (LATE_LIMITS,),
    ),
    Mutation(
        "A limit is set after the bookings that were decided without it.",
        "quotas/limits.py",
        "    session.execute(_LOCK_BACKENDS)\n",
        "    pass\n",
        (LATE_LIMITS,),
    ),
    Mutation(
        "A scheduler locks and reads the changed pools after a failed booking.",
        "scheduler/decisions/placer.py",
        "                contested |= changed_pools.pool_ids\n",
        "                pass\n",
        (PLACER,),
    ),
    Mutation(
        "A scheduler checks the ledger before it refuses a request.",
        "scheduler/decisions/placer.py",
        "_further(plan.doubtful, final)) and not self._is_alone(session):",
        "_further(plan.doubtful, final)) and False:",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "A scheduler checks the ledger again for a request that fails only in a second round.",
        "scheduler/decisions/placer.py",
        "            plan = decide()\n        return plan",
        "            plan = decide()\n            break\n        return plan",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "A check before a refusal reads the reports that other schedulers applied.",
        "scheduler/reports/cache_refresh.py",
        "!= (known[row.id].epoch, known[row.id].seq):",
        "!= (row.epoch, row.report_seq):",
        (CAPACITY_RELEASED_BEFORE_BOOKING,),
    ),
    Mutation(
        "A check before a refusal reads the current counters of the pools.",
        "scheduler/reports/cache_refresh.py",
        "        pools = [pool for pool in map(self.hosts.table.get, names) if pool]\n",
        "        pools = []\n",
        (CAPACITY_RELEASED_BEFORE_BOOKING,),
    ),
    Mutation(
        "A check before a refusal keeps the claims of its batch.",
        "scheduler/decisions/placer.py",
        "            if not self._cache_refresh.refresh_candidates(",
        "            self._forget()\n            if not self._cache_refresh.refresh_candidates(",
        (CAPACITY_RELEASED_BEFORE_BOOKING,),
    ),
    Mutation(
        "The choice of a group's backend uses the figures in the ledger.",
        "scheduler/decisions/decider.py",
        "    return [replace(spec.request, backends=None), *spec.group.asks]",
        "    return [replace(spec.request, backends=None)]",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "A refusal of volumes with affinity uses the current figures of all candidate pools.",
        "scheduler/decisions/decider.py",
        "anywhere = replace(spec.request, same_backends=None)",
        "anywhere = spec.request",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "A refusal of a retype uses the figures in the ledger.",
        "scheduler/decisions/decider.py",
        "            moved.doubtful = [*moved.doubtful, request]\n",
        "            pass\n",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "A scheduler reads all counters when it becomes the only one.",
        "scheduler/claims/sweep.py",
        "everything=not was_alone",
        "everything=False",
        (PERIODIC_TASKS,),
    ),
    Mutation(
        "A refusal by a filter that uses figures uses the figures in the ledger.",
        "scheduler/reports/cache_refresh.py",
        "filters.admitted(",
        "filters.candidates(",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "A scheduler starts only with the scheduling rules of the running schedulers.",
        "ledger/inventory/scheduling_rules.py",
        "        if found := _compare(me, row.default_ratio, row.calculation, others[0].host):\n",
        "        if found := _compare(me, me.default_ratio, me.calculation, others[0].host):\n",
        (SCHEDULING_RULES,),
    ),
    Mutation(
        "No generation of a scheduler is that of a ledger whose copy is used.",
        "ledger/inventory/ledger_identity.py",
        "-1 - generation})",
        "generation})",
        (DATABASE_COPY,),
    ),
    Mutation(
        "Nothing that locks pools takes effect in a ledger whose copy is used.",
        "ledger/claims/pool_counters.py",
        "            raise ledger_identity.moved(session)\n",
        "            pass\n",
        (DATABASE_COPY,),
    ),
    Mutation(
        "No stamp is taken from a ledger whose copy is used.",
        "ledger/inventory/reports.py",
        "    scheduling_rules.lock_shared(session)\n    storage",
        "    storage",
        (DATABASE_COPY,),
    ),
    Mutation(
        "No outcome is acknowledged by a ledger whose copy is used.",
        "ledger/claims/settlement.py",
        "        scheduling_rules.read_generation(session)\n",
        "",
        (DATABASE_COPY,),
    ),
    Mutation(
        "A booking adds its claim to all other pools on the storage.",
        "ledger/claims/bookings.py",
        "pool_counters.add_to_shared(session, terms.storage_id, terms.pool_id, terms.size, terms.physical)",
        "pass",
        (BOOKINGS,),
        quick=True,
    ),
    Mutation(
        "A booking counts the claims of its batch in other pools on the storage.",
        "ledger/claims/bookings.py",
        "if mixed or shares:",
        "if mixed:",
        (BOOKINGS,),
    ),
    Mutation(
        "A scheduler looks up the key of each request.",
        "scheduler/decisions/placer.py",
        "known = request_keys.find(session, keys_of(work))",
        "known = {}",
        (BOOKINGS,),
    ),
    Mutation(
        "A request has no effect long after it was sent.",
        "ledger/claims/request_keys.py",
        "at < before and id not in known",
        "False",
        (REDELIVERY,),
    ),
    Mutation(
        "A request that was answered in time gets its answer also later.",
        "ledger/claims/request_keys.py",
        "at < before and id not in known",
        "at < before",
        (REDELIVERY,),
    ),
    Mutation(
        "The ledger stores the key of each request.",
        "ledger/claims/request_keys.py",
        "    if not keys:\n        return\n    connection",
        "    if keys:\n        return\n    connection",
        (BOOKINGS,),
    ),
    Mutation(
        "The ledger stores the answer of a refused request.",
        "scheduler/decisions/booking_plan.py",
        "        if key.request_id:\n",
        "        if key.request_id and answer.refusal is None:\n",
        (STORED_REFUSALS,),
    ),
    Mutation(
        "The ledger keeps the key of a refused request until the request has expired.",
        "ledger/claims/request_keys.py",
        " - KEPT + REFUSAL_KEPT",
        " - KEPT",
        (KEYS_OF_REFUSALS,),
    ),
    Mutation(
        "The ledger keeps the key of a refused request for a short time only.",
        "ledger/claims/request_keys.py",
        " - KEPT + REFUSAL_KEPT",
        "",
        (KEYS_OF_REFUSALS,),
    ),
    Mutation(
        "A clone source refuses an extend.",
        "ledger/claims/clone_sources.py",
        "    if grown and (cloned := being_cloned(session, grown)):",
        "    if not grown and (cloned := being_cloned(session, grown)):",
        (CLONES,),
    ),
    Mutation(
        "A clone requires the pool and the size of its source that the decision used.",
        "ledger/claims/clone_sources.py",
        "cloneable.get(source) != as_seen:",
        "source not in cloneable:",
        (CLONES,),
    ),
    Mutation(
        "A clone requires a source without another operation.",
        "ledger/claims/clone_sources.py",
        "            if row.status in CLONEABLE:\n",
        "            if row.status:\n",
        (CLONES,),
    ),
    Mutation(
        "A clone that waits for another pool still blocks an extend of its source.",
        "ledger/claims/clone_sources.py",
        'volume.status == "creating", volume.source_volume_id.in_(chunk)',
        'volume.status == "creating", volume.pool_id.is_not(None), volume.source_volume_id.in_(chunk)',
        (CLONES,),
    ),
    Mutation(
        "A copy stays within the capacity of its claim.",
        "ledger/inventory/backends.py",
        "size = size or claim.physical_gb or claim",
        "size = size or claim",
        (CLONES,),
    ),
    Mutation(
        "A refused delete has no later effect.",
        "ledger/claims/deletions.py",
        "            known.setdefault(request_id, refused)\n",
        "",
        (REDELIVERY,),
    ),
    Mutation(
        "A refused unmanage has no later effect.",
        "scheduler/claims/volume_operations.py",
        "                self._database.run(request_keys.insert, [refused])",
        "                self._database.run(request_keys.insert, [])",
        (REDELIVERY,),
    ),
    Mutation(
        "An extend that was refused for a volume in use has no later effect.",
        "scheduler/decisions/booking_plan.py",
        "        if key.request_id and isinstance(error, STORED_ERRORS):\n",
        "        if False:\n",
        (REDELIVERY,),
    ),
    Mutation(
        "A repeated delete gets the first answer again.",
        "ledger/claims/deletions.py",
        "                known[request_id] = request_keys.Key(request_id, volume_id, bookings.DELETE)\n",
        "",
        (REDELIVERY,),
    ),
    Mutation(
        "The ledger keeps the key of a request while its volume exists.",
        "ledger/claims/request_keys.py",
        ".where(key.counted_from < before, sa.or_(key.refused, ~has_volume))",
        ".where(key.counted_from < before)",
        (STORED_REQUEST_KEYS,),
    ),
    Mutation(
        "The ledger keeps the key of a request for a week after its volume.",
        "ledger/claims/operation_outcomes.py",
        "        .values(counted_from=models.utcnow())\n",
        "        .values(counted_from=models.RequestKey.counted_from)\n",
        (STORED_REQUEST_KEYS,),
    ),
    Mutation(
        "A transaction that writes to an SQLite file locks it at its beginning.",
        "ledger/db/dialects.py",
        '"BEGIN" if read_only else "BEGIN IMMEDIATE"',
        '"BEGIN"',
        (DATABASE,),
    ),
    Mutation(
        "A transaction on a Galera cluster begins at the writer only.",
        "ledger/db/galera.py",
        "        if node == here:",
        "        if node:",
        (GALERA,),
    ),
    Mutation(
        "A transaction on a Galera cluster is committed only if the writer has not changed.",
        "ledger/db/galera.py",
        "        if not found.rowcount:",
        "        if not found:",
        (GALERA,),
    ),
    Mutation(
        "A transaction on a Galera cluster conflicts with a change of the writer in the same term.",
        "ledger/db/galera.py",
        ', _SLOT.c.term == sa.bindparam("in_term"), _SLOT.c.node == _HERE)',
        ")",
        (GALERA,),
    ),
    Mutation(
        "A writer in use stays the writer.",
        "ledger/db/galera.py",
        "            return now - self._last_use_at >= PATIENCE",
        "            return True",
        (GALERA,),
    ),
    Mutation(
        "A second read of a row in a transaction returns its current values.",
        "ledger/db/database.py",
        'isolation_level="READ COMMITTED"',
        'isolation_level="REPEATABLE READ"',
        (LAST_GIB,),
    ),
    Mutation(
        "Transactions lock rows in one order.",
        "ledger/claims/pool_counters.py",
        "for key, size in sorted(added.items()) if size]",
        "for key, size in added.items() if size]",
        (LAST_GIB,),
    ),
    Mutation(
        "The ledger sums the in-flight capacity in a separate statement after the locks.",
        "ledger/claims/pool_counters.py",
        "_LOCK_BACKENDS, _LOCK_POOLS = _READ_BACKENDS.with_for_update(), _READ_POOLS.with_for_update()",
        "_LOCK_BACKENDS, _LOCK_POOLS = _READ_BACKENDS, _READ_POOLS",
        (IN_FLIGHT_SUMS,),
    ),
    Mutation(
        "The ledger repeats a transaction after a lost connection.",
        "ledger/db/db_errors.py",
        "return is_collision(error) or is_away(error)",
        "return is_collision(error)",
        (LOST_COMMITS,),
    ),
    Mutation(
        "A migration requires the source pool that the decision used.",
        "ledger/claims/bookings.py",
        '        _VOLUME.pool_id == sa.bindparam("from_pool"),\n',
        '        sa.or_(sa.true(), _VOLUME.pool_id == sa.bindparam("from_pool")),\n',
        (BOOKINGS,),
    ),
    Mutation(
        "A report contains only the claims that ended before it.",
        "ledger/inventory/reports.py",
        'sa.and_(_CLAIM.c.end_epoch == sa.bindparam("epoch"), _CLAIM.c.end_tick < sa.bindparam("covers")),',
        'sa.and_(_CLAIM.c.end_epoch == sa.bindparam("epoch"), sa.bindparam("covers") >= 0),',
        (POOL_COUNTERS,),
        quick=True,
    ),
    Mutation(
        "A confirmed claim counts as contained only if it ended before the last report.",
        "ledger/claims/settlement.py",
        "return (ending.epoch, ending.tick) < self.locked.covers[claim.pool_id]",
        "return True",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "A report contains the claims of older epochs.",
        "ledger/inventory/reports.py",
        '        _CLAIM.c.end_epoch < sa.bindparam("epoch"),\n',
        '        _CLAIM.c.end_epoch > sa.bindparam("epoch"),\n',
        (EPOCHS,),
    ),
    Mutation(
        "The ledger ignores a report of another epoch.",
        "ledger/inventory/reports.py",
        "known = (epoch, seq, rules) == (report.epoch, report.base, report.rules)",
        "known = (seq, rules) == (report.base, report.rules)",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "The ledger ignores a report with an older sequence number.",
        "ledger/inventory/reports.py",
        "if known and seq < report.seq and covers <= report.covers:",
        "if known and covers <= report.covers:",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "The ledger ignores a report that covers fewer ticks than the last one.",
        "ledger/inventory/reports.py",
        "if known and seq < report.seq and covers <= report.covers:",
        "if known and seq < report.seq:",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "The ledger applies a report only if its diff is based on the last report.",
        "ledger/inventory/reports.py",
        "known = (epoch, seq, rules) == (report.epoch, report.base, report.rules)",
        "known = (epoch, rules) == (report.epoch, report.rules)",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "A failed operation releases its claim at once only if the storage is clean.",
        "ledger/claims/settlement.py",
        "verified_clean = ending.clean and not ending.ok",
        "verified_clean = not ending.ok",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "The remains of a failed create stay counted.",
        "ledger/claims/operation_outcomes.py",
        "    if ending.size_gb > 0:\n        # It has failed, but a",
        "    if False:\n        # It has failed, but a",
        (PLACER,),
    ),
    Mutation(
        "A claim ends once.",
        "ledger/claims/operation_outcomes.py",
        "        elif claim.state == pool_counters.PENDING:\n",
        "        else:\n",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "The ledger ignores an outcome of an older epoch.",
        "ledger/claims/operation_outcomes.py",
        "if by_id[claim.id].epoch != work.locked.epochs[claim.backend_id]:",
        "if False:",
        (EPOCHS,),
    ),
    Mutation(
        "Each agent process gets a new epoch.",
        "ledger/inventory/backends.py",
        "        backend.epoch += 1\n",
        "        backend.epoch = max(1, backend.epoch)\n",
        (REPORT_HANDLER,),
    ),
    Mutation(
        "A repeated hello opens one epoch.",
        "ledger/inventory/backends.py",
        "    if backend.nonce != nonce:\n",
        "    if True:\n",
        (REPORT_HANDLER,),
    ),
    Mutation(
        "The end of a delete, not its request, releases the capacity.",
        "ledger/claims/deletions.py",
        "    session.add(claim)\n    volume.status",
        "    session.add(claim)\n"
        "    pool_counters.add_to_backends(session, {pools[volume.pool_id]: -volume.size_gb})\n"
        '    row = {"of": volume.pool_id, "more": -volume.size_gb, "gone": 0, "came": 0}\n'
        "    session.connection().execute(pool_counters._ADD_TO_POOL, row)\n"
        "    volume.status",
        (DELETIONS,),
    ),
    Mutation(
        "A delete does not add contained capacity to the in-flight capacity.",
        "ledger/claims/settlement.py",
        "claim.contained = claim.contained or self._is_contained(claim, ending)",
        "claim.contained = self._is_contained(claim, ending)",
        (DELETIONS,),
    ),
    Mutation(
        "The growth that a failed extend has reached stays counted.",
        "ledger/claims/operation_outcomes.py",
        "elif reached > before:",
        "elif False:",
        (OPERATION_OUTCOMES,),
    ),
    Mutation(
        "A managed volume is not in flight if the figures contain it.",
        "ledger/claims/operation_outcomes.py",
        "claim.contained = not thick and before is not None and before >= size",
        "claim.contained = False",
        (MANAGED_VOLUMES,),
    ),
    Mutation(
        "A managed volume is in flight if the figures may lack it.",
        "ledger/claims/operation_outcomes.py",
        "claim.contained = not thick and before is not None and before >= size",
        "claim.contained = True",
        (MANAGED_VOLUMES,),
    ),
    Mutation(
        "An unmanaged volume counts as external capacity.",
        "ledger/claims/deletions.py",
        "    pool.external_gb += size\n",
        "",
        (REDELIVERY,),
    ),
    Mutation(
        "An unmanaged volume leaves the allocated capacity.",
        "ledger/claims/deletions.py",
        "    pool_counters.add_to_pools(session, locked, {pool_id: change})\n",
        "",
        (REDELIVERY,),
    ),
    Mutation(
        "A listing has no effect on operations that run at its moment.",
        "ledger/inventory/listings.py",
        "claim_id not in listing.in_hand and (epoch or 0, tick or 0) < listing.moment",
        "(epoch or 0, tick or 0) < listing.moment",
        (LISTINGS,),
    ),
    Mutation(
        "The ledger ignores a listing that is older than the last one.",
        "ledger/inventory/listings.py",
        "if last is None or tuple(last) >= (epoch, tick):",
        "if last is None:",
        (LISTINGS,),
    ),
    Mutation(
        "The later of two concurrent listings is applied again.",
        "ledger/inventory/listings.py",
        "    if recorded.rowcount != 1:\n",
        "    if False:\n",
        (LISTINGS,),
    ),
    Mutation(
        "An unmanage invalidates earlier listings of its backend.",
        "ledger/claims/deletions.py",
        "    listings.invalidate_until(session, pool.backend_id, epoch, tick)\n",
        "",
        (LISTINGS,),
    ),
    Mutation(
        "An incomplete listing does not reduce the external capacity.",
        "ledger/inventory/listings.py",
        "        if self.incomplete:\n",
        "        if False:\n",
        (LISTINGS,),
    ),
    Mutation(
        "A check before a refusal reads the counters before the figures.",
        "scheduler/reports/cache_refresh.py",
        "        return self.refresh(session) or changed\n",
        "        changed |= self.refresh(session)\n"
        "        self.refresh_counters(session, ids)\n"
        "        return changed\n",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "The figures of a pool that was written since the cached report are read again.",
        "ledger/inventory/backends.py",
        " and self.covers < covers",
        "",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "The remains of a deleted volume do not hide external volumes in a listing.",
        "ledger/inventory/listings.py",
        "        .join(volume, volume.id == claim.volume_id)\n",
        "",
        (LISTINGS,),
    ),
    Mutation(
        "A listing has no effect on operations that end after its moment.",
        "ledger/inventory/listings.py",
        "claim_id not in listing.in_hand and (epoch or 0, tick or 0) < listing.moment",
        "claim_id not in listing.in_hand",
        (LISTINGS,),
    ),
    Mutation(
        "A scheduler repeats a command without an outcome after its lease.",
        "scheduler/claims/dispatcher.py",
        "if sent is None or now - sent >= self._lease:",
        "if sent is None:",
        (DISPATCHER,),
    ),
    Mutation(
        "An abandoned claim stays counted.",
        "ledger/claims/pool_counters.py",
        "LIVE = (PENDING, CONFIRMED, ABANDONED)",
        "LIVE = (PENDING, CONFIRMED)",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "An abandoned claim orders a purge.",
        "ledger/claims/operation_outcomes.py",
        "    claim.state = pool_counters.ABANDONED\n    work.purge(claim, claim.pool_id)\n",
        "    claim.state = pool_counters.ABANDONED\n",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "A copy that a failed migration found counts until a report has it.",
        "ledger/claims/operation_outcomes.py",
        "clean=ending.clean and ending.size_gb == 0",
        "clean=ending.clean",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "The source of a migration stays counted until its purge ends.",
        "ledger/claims/operation_outcomes.py",
        "        work.purge(claim, claim.source_pool_id)\n",
        "        work.release(claim, ending)\n",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "A volume does not migrate to a pool that still holds a copy of it.",
        "scheduler/decisions/steps/moves.py",
        "attempted=lookup.copies.get(volume.id, frozenset()) | {volume.pool.name},",
        "attempted=frozenset([volume.pool.name]),",
        (REQUEST_SPEC,),
    ),
    Mutation(
        "A volume without a pool waits for the volumes in its hints.",
        "scheduler/decisions/steps/affinity_hints.py",
        "        if other is not None:\n            raise NotFirst",
        "        if False:\n            raise NotFirst",
        (AFFINITY_ORDER,),
    ),
    Mutation(
        "Of volumes whose hints name each other, one is placed first.",
        "scheduler/decisions/steps/affinity_hints.py",
        "        if order.waiting_companions(volume):\n",
        "        if False:\n",
        (AFFINITY_ORDER,),
    ),
    Mutation(
        "A retried volume is refused only after the volumes in its hints have their pools.",
        "scheduler/decisions/decider.py",
        "if isinstance(decision, Refusal) and spec.unsettled is not None:",
        "if False:",
        (AFFINITY_ORDER,),
    ),
    Mutation(
        "A booking checks the pools of the volumes that its hints name.",
        "ledger/claims/clone_sources.py",
        "if pools.get(other) != pool_id:",
        "if False:",
        (AFFINITY_ORDER,),
    ),
    Mutation(
        "A volume does not wait for a volume that has no pool either.",
        "scheduler/decisions/steps/affinity_order.py",
        "if each.status == _CREATING and each.pool_id is not None",
        "if each.status == _CREATING",
        (AFFINITY_ORDER,),
    ),
    Mutation(
        "Stamps decide which claims the figures of another backend contain.",
        "ledger/claims/pool_counters.py",
        "return claim.end_stamp is not None and bool(claim.end_stamp <= coverage.covers_stamp)",
        "return True",
        (POOL_COUNTERS,),
        quick=True,
    ),
    Mutation(
        "A report without a stamp of a shared storage contains no claim of other backends.",
        "ledger/inventory/reports.py",
        "claim.end_stamp > report.stamps.get(storage_id, 0)",
        "claim.end_stamp > report.stamps.get(storage_id, 2**62)",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "An ended claim gets the stamp of the next report.",
        "ledger/claims/settlement.py",
        "self.stamps.get(storage_id, 0) + 1",
        "self.stamps.get(storage_id, 0)",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "A released claim counts in other pools on the storage until their reports contain it.",
        "ledger/claims/pool_counters.py",
        "        for claim in claims:\n            self._sizes",
        "        for claim in (each for each in claims if each.state in LIVE):\n            self._sizes",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "The ledger keeps no claims for pools that are no longer reported.",
        "ledger/claims/pool_counters.py",
        "reported = {row.id: coverages[row.id] for row in pools if row.present}",
        "reported = {row.id: coverages[row.id] for row in pools}",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "An extend requires the pool that the decision used.",
        "ledger/claims/bookings.py",
        '        _VOLUME.pool_id == sa.bindparam("in_pool"),\n',
        "",
        (BOOKINGS,),
    ),
    Mutation(
        "A pool counts the external volumes of other pools on the storage.",
        "ledger/claims/pool_counters.py",
        "int(row.allocated_capacity_gb) + math.ceil(row.external_gb)",
        "int(row.allocated_capacity_gb)",
        (POOL_COUNTERS,),
    ),
    Mutation(
        "The volumes of a group are fitted together.",
        "scheduler/decisions/steps/group_packing.py",
        "        self.pools.claim(index, size, physical)\n        self._count(index, 1)\n"
        "        self._placed[number] = (index, size, physical)",
        "        self._placed[number] = (index, 0.0, 0.0)",
        (GROUP_PACKING,),
    ),
    Mutation(
        "A group is placed completely or not at all.",
        "scheduler/decisions/decider.py",
        "            doubtful: list[Request] = []\n",
        "            doubtful: list[Request] = []\n"
        "            if isinstance(alone := self.choose(specs[0].request), Placement):\n"
        "                return RequestDecision(specs[:1], [alone])\n",
        (GROUP_PACKING,),
    ),
    Mutation(
        "A group that does not fit in its order is tried in other arrangements.",
        "scheduler/decisions/steps/group_packing.py",
        "if self._tightly(by_size) or self._search(by_size):",
        "if False:",
        (GROUP_PACKING,),
    ),
    Mutation(
        "An outcome that is still unknown ends no claim.",
        "ledger/claims/operation_outcomes.py",
        "elif claim.state == pool_counters.PENDING and by_id[claim.id].unknown:",
        "elif False:",
        (OPERATION_OUTCOMES,),
    ),
    Mutation(
        "A volume whose operation has an unknown outcome counts until a removal has ended.",
        "agent/execution.py",
        "return OperationResult(ok=False, size_gb=float(command.size_gb), message=message)",
        "return OperationResult(ok=False, size_gb=0.0, clean=True, message=message)",
        (OPERATIONS,),
    ),
    Mutation(
        "An agent refuses commands of another epoch.",
        "agent/operations.py",
        "if epoch is None or command.epoch != epoch.number:",
        "if epoch is None:",
        (BACKEND_AGENT,),
    ),
    Mutation(
        "An agent executes each claim at most once.",
        "agent/operations.py",
        "record = self._records.get(command.claim_id)",
        "record = None",
        (OPERATIONS,),
    ),
    Mutation(
        "An agent executes one operation at a time for each volume.",
        "agent/operations.py",
        "if self.suspended or not queue or volume_id in self._running or self._epoch is None:",
        "if self.suspended or not queue or self._epoch is None:",
        (OPERATIONS,),
    ),
    Mutation(
        "A backend has one agent process at a time.",
        "agent/lock.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        (LOCK,),
    ),
    Mutation(
        "An agent drops queued commands of an ended epoch.",
        "agent/operations.py",
        "            self._epoch = epoch\n            self._queues.clear()\n",
        "            self._epoch = epoch\n",
        (BACKEND_AGENT,),
    ),
    Mutation(
        "An agent repeats an outcome until a scheduler confirms it.",
        "agent/outbox.py",
        "                    self._enqueue(queued, time.monotonic() + self._backoff.after(queued.attempts))\n",
        "                    del self._outcomes[queued.outcome.claim_id]\n",
        (OUTBOX,),
    ),
    Mutation(
        "An agent creates nothing for a deleted volume.",
        "agent/operations.py",
        "                elif command in self._removals:\n",
        "                elif False:\n",
        (OPERATIONS,),
    ),
    Mutation(
        "An agent takes the tick of a report before the snapshot.",
        "agent/operations.py",
        "return next(self._reports), next(self._ticks)",
        "return next(self._reports), next(self._ticks) + 3",
        (MODEL,),
    ),
    Mutation(
        "An agent waits for short operations before a snapshot.",
        "agent/snapshots.py",
        "operations.wait_idle(self._quiet_wait if operations.end_within(self._quiet_wait) else 0.0)",
        "operations.wait_idle(0.0)",
        (BACKEND_AGENT,),
    ),
    Mutation(
        "An agent on shared storage asks for stamps before the snapshot.",
        "agent/snapshots.py",
        "stamps = self._request_stamps(shared) if shared else {}\n"
        "        return dataclasses.replace(self._collect(epoch), stamps=dict(stamps))",
        "report = self._collect(epoch)\n"
        "        return dataclasses.replace(report, stamps=dict(self._request_stamps(shared) if shared else {}))",
        (BACKEND_AGENT,),
    ),
    Mutation(
        "A probe has a number that no other has",
        "ledger/inventory/probes.py",
        ".values(last_probe=backend.last_probe + 1, probed_at=now)",
        ".values(probed_at=now)",
        (PROBES,),
    ),
    Mutation(
        "A report that answers no later probe sets no figures",
        "ledger/inventory/reports.py",
        "if known and seq < report.seq and covers <= report.covers:",
        "if known and covers <= report.covers:",
        (PROBES,),
    ),
    Mutation(
        "A number that was never allocated sets no figures",
        "ledger/inventory/probes.py",
        "if row is None or report.probe.number > row.last_probe:",
        "if row is None:",
        (PROBES,),
    ),
    Mutation(
        "A lagging storage needs one more probe",
        "ledger/inventory/probes.py",
        "covers=max(0, report.probe.number - report.lag),",
        "covers=report.probe.number,",
        (PROBES,),
    ),
    Mutation(
        "An end has the number of the last probe that was allocated before",
        "ledger/claims/observed_claims.py",
        "    last = _last_probes(session, work.locked.epochs.keys())\n",
        "    last = dict.fromkeys(work.locked.epochs, 0)\n",
        (
            PROBES,
            CINDER_MODEL,
        ),
    ),
    Mutation(
        "A report contains only claims with a lower number",
        "ledger/claims/observed_claims.py",
        "    return {row[0]: int(row[1]) for row in rows}\n",
        "    return {row[0]: int(row[1]) - 1 for row in rows}\n",
        (
            PROBES,
            CINDER_MODEL,
        ),
    ),
    Mutation(
        "A claim that was sent stays in flight after its end",
        "ledger/claims/observed_claims.py",
        "kept=False, clean=not row.sent)",
        "kept=False, clean=True)",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "A claim takes effect only if its pool admits it",
        "ledger/claims/observed_claims.py",
        "    bookings.take(session, [booking], Calculation.STANDARD, generation, all_bounded=True)\n",
        "    bookings.pool_counters.lock(session, [booking.pool_id])\n",
        (
            OBSERVED_CLAIMS,
            CINDER_MODEL,
        ),
    ),
    Mutation(
        "A ledger whose copy is used takes no claim",
        "ledger/claims/observed_claims.py",
        "    generation = scheduling_rules.read_generation(session)\n",
        "    generation = 0\n",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "Thick volumes of another system are within the limit for all",
        "ledger/claims/observed_claims.py",
        "generation, all_bounded=True)",
        "generation)",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "An attempt claims once",
        "ledger/claims/observed_claims.py",
        "by an earlier try of this transaction, whose commit got no answer\n        raise Repeated(asked.volume_id)\n",
        "by an earlier try\n        asked = key(asked.volume_id, asked.verb, booking.id)\n",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "A request that is delivered again is not refused after its claim",
        "ledger/claims/observed_claims.py",
        "    elif known.answer != asked.answer:\n        raise Repeated(asked.volume_id)\n",
        "",
        (CINDER_LEDGER,),
    ),
    Mutation(
        "A claim that was given up is not sent",
        "ledger/claims/observed_claims.py",
        "_CLAIM.state == pool_counters.PENDING, _CLAIM.sent.is_(False))",
        "_CLAIM.sent.is_(False))",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "A claim that was sent since its row was read does not end",
        "ledger/claims/observed_claims.py",
        "row is None or row.sent != end.sent or row.state",
        "row is None or row.state",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "A claim that was sent is not dropped",
        "ledger/claims/observed_claims.py",
        "        if not claim.sent and claim.state == pool_counters.PENDING:\n",
        "        if claim.state == pool_counters.PENDING:\n",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "A volume that others make stays in flight until it is there",
        "ledger/claims/observed_claims.py",
        "    if volume.ended:\n",
        "    if True:\n",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "A volume is adopted with the capacity that its claims lack",
        "ledger/claims/observed_claims.py",
        "volume.size_gb - counted.get((volume.volume_id, pool_id), 0)",
        "volume.size_gb",
        (OBSERVED_CLAIMS,),
    ),
    Mutation(
        "A volume in error ends no claim",
        "cinder_adapter/scheduler/claim_ends.py",
        ' and not row.status.startswith("error")',
        "",
        (CLAIM_ENDS,),
    ),
    Mutation(
        "A volume that is creating ends no claim",
        "cinder_adapter/scheduler/claim_ends.py",
        '"creating"',
        '"gone"',
        (CLAIM_ENDS,),
    ),
    Mutation(
        "A volume that is downloading ends no claim",
        "cinder_adapter/scheduler/claim_ends.py",
        '"downloading"',
        '"gone"',
        (CLAIM_ENDS,),
    ),
    Mutation(
        "A volume that is extending ends no claim",
        "cinder_adapter/scheduler/claim_ends.py",
        '"extending"',
        '"gone"',
        (CLAIM_ENDS,),
    ),
    Mutation(
        "A volume that is deleting ends no claim",
        "cinder_adapter/scheduler/claim_ends.py",
        '"deleting"',
        '"gone"',
        (CLAIM_ENDS,),
    ),
    Mutation(
        "A volume without a row ends its claims",
        "cinder_adapter/scheduler/claim_ends.py",
        "kept=False, deleted=True) for claim in mine",
        "kept=True) for claim in mine",
        (CLAIM_ENDS,),
    ),
    Mutation(
        "A volume in another pool, or in none, ends its claim",
        "cinder_adapter/scheduler/claim_ends.py",
        "    if row.pool != claim.pool or",
        "    if row.pool is not None and row.pool != claim.pool or",
        (CLAIM_ENDS,),
    ),
    Mutation(
        "The claim of a retype within a pool ends with it",
        "cinder_adapter/scheduler/claim_ends.py",
        " or claim.size_gb == 0:",
        ":",
        (CLAIM_ENDS,),
    ),
    Mutation(
        "The claim of a group holds until all its volumes have hosts",
        "cinder_adapter/scheduler/claim_ends.py",
        "all(row.pool is not None for row in members)",
        "True",
        (CLAIM_ENDS, CINDER_MODEL),
    ),
    Mutation(
        "The claim of a group without volumes holds for its lease",
        "cinder_adapter/scheduler/claim_ends.py",
        " if members else claim.age >= lease",
        " if members else True",
        (CLAIM_ENDS, CINDER_MODEL),
    ),
    Mutation(
        "The volumes of a group count from the moment at which its claim ends",
        "cinder_adapter/scheduler/cinder_ledger.py",
        "row.group_id or row.id",
        "row.id",
        (CINDER_LEDGER,),
    ),
    Mutation(
        "A migration holds both pools until it ends",
        "cinder_adapter/scheduler/claim_ends.py",
        "    if claim.verb == bookings.MIGRATE and not claim.ended and moving:\n        return None\n",
        "",
        (CLAIM_ENDS,),
    ),
    Mutation(
        "A claim that is not sent is given up after its lease only",
        "cinder_adapter/scheduler/claim_ends.py",
        " and claim.age < lease",
        " and claim.age < 0",
        (CLAIM_ENDS,),
    ),
    Mutation(
        "Nothing is sent unless the row waits for a pool",
        "cinder_adapter/scheduler/placing.py",
        "    if not row.take(booking.pool_name):\n",
        "    if not row.take(booking.pool_name) and not booking.id:\n",
        (PLACING,),
    ),
    Mutation(
        "Nothing is sent unless the claim is recorded as sent",
        "cinder_adapter/scheduler/placing.py",
        "    if not database.run(observed_claims.record_sent, booking.id):\n",
        "    if not database.run(observed_claims.record_sent, booking.id) and not booking.id:\n",
        (PLACING,),
    ),
)
