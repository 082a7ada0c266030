# SPDX-License-Identifier: Apache-2.0
"""The ledger's rules, each with a small change of the code that takes it away, and the tests that guard it."""

import dataclasses
from collections.abc import Sequence

MODEL = "tests/unit/scheduler/test_model.py"
BONDS = "tests/unit/scheduler/decisions/test_affinity_order.py"
BOOKINGS = "tests/unit/ledger/claims/test_bookings.py"
PLACEMENT = "tests/unit/scheduler/decisions/test_placer.py"
REPORT_HANDLER = "tests/unit/scheduler/reports/test_report_handler.py"
RESOLUTION = "tests/unit/scheduler/decisions/test_request_spec.py"
JOINT_FIT = "tests/unit/scheduler/decisions/test_group_packing.py"
BACKEND_AGENT = "tests/unit/agent/test_backend_agent.py"
OPERATIONS = "tests/unit/agent/test_operations.py"
SHARED = "tests/unit/ledger/claims/test_pool_counters.py"
EPOCHS = "tests/unit/ledger/inventory/test_epochs.py"
RULES_AGREEMENT = "tests/unit/scheduler/cluster/test_rules_agreement.py"
DATABASE = "tests/unit/ledger/db/test_database.py"
DELETIONS = "tests/unit/ledger/claims/test_deletions.py"
DISPATCHER = "tests/unit/scheduler/claims/test_dispatcher.py"
ENDINGS = "tests/unit/ledger/claims/test_operation_outcomes.py"
LISTINGS = "tests/unit/ledger/inventory/test_listings.py"
LOCK = "tests/unit/agent/test_lock.py"
LOST_COMMITS = "tests/unit/ledger/db/test_lost_commits.py"
MANAGES = "tests/unit/ledger/claims/test_managed_volumes.py"
OUTBOX = "tests/unit/agent/test_outbox.py"
CLONES = "tests/unit/scheduler/decisions/test_clones.py"
REDELIVERY = "tests/unit/scheduler/decisions/test_redelivery.py"
RULES = "tests/unit/ledger/inventory/test_scheduling_rules.py"
PERIODIC_TASKS = "tests/unit/scheduler/claims/test_periodic_tasks.py"
TWO_SCHEDULERS = "tests/unit/scheduler/cluster/test_two_schedulers.py"
CONTENTION = "tests/functional/test_contention.py::test_the_last_gib_goes_to_whoever_asks"
MEANWHILE = (
    "tests/functional/test_contention.py::test_nobody_is_refused_for_room_that_came_before_the_others_were_booked"
)
SUMS = "tests/functional/test_contention.py::test_what_is_in_flight_is_summed_with_what_was_claimed_meanwhile"
REFUSALS_KEPT = "tests/functional/test_ledger.py::test_a_refusal_is_remembered_too[sqlite]"
KEYS_KEPT = "tests/functional/test_ledger.py::test_keys_of_requests_outlive_their_volume_for_a_week[sqlite]"


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
        "ledger/claims/bookings.py",
        'promised + given("thin_sum") <= _POOL.thin_limit_gb + TOLERANCE_GB',
        "sa.true()",
        (BOOKINGS,),
        quick=True,
    ),
    Mutation(
        "conditional update: thick volumes stay below what is free",
        "ledger/claims/bookings.py",
        'given("thick_sum") <= left + TOLERANCE_GB',
        "sa.true()",
        (BOOKINGS,),
    ),
    Mutation(
        "conditional update: a thin volume stays below what is free times the ratio",
        "ledger/claims/bookings.py",
        'fits = given("largest") <= (left - given("before")) * _POOL.ratio + TOLERANCE_GB\n            conditions',
        "fits = sa.true()\n            conditions",
        (BOOKINGS,),
    ),
    Mutation(
        "conditional update: what external volumes have counts",
        "ledger/claims/bookings.py",
        "_POOL.allocated_capacity_gb + _POOL.shared_allocated_gb + _POOL.external_gb",
        "_POOL.allocated_capacity_gb + _POOL.shared_allocated_gb",
        (BOOKINGS,),
    ),
    Mutation(
        "conditional update: what others on the storage have counts",
        "ledger/claims/bookings.py",
        "_POOL.provisioned_capacity_gb + _POOL.in_flight_gb + _POOL.shared_in_flight_gb",
        "_POOL.provisioned_capacity_gb + _POOL.in_flight_gb",
        (BOOKINGS,),
    ),
    Mutation(
        "the generation that the decision saw is compared",
        "ledger/claims/bookings.py",
        '        _POOL.generation == sa.bindparam("seen"),\n',
        '        sa.or_(sa.true(), _POOL.generation == sa.bindparam("seen")),\n',
        (REPORT_HANDLER, BOOKINGS),
    ),
    Mutation(
        "nothing is booked on a backend that is closed",
        "ledger/claims/pool_counters.py",
        "    models.Backend.enabled.is_(True),\n    models.Backend.draining.is_(False),\n",
        "",
        (BOOKINGS,),
    ),
    Mutation(
        "nothing is booked by rules that are others by now",
        "ledger/claims/pool_counters.py",
        '    models.Backend.rules_generation == sa.bindparam("rules"),\n',
        '    models.Backend.rules_generation >= sa.bindparam("rules") - 99,\n',
        (RULES_AGREEMENT,),
    ),
    Mutation(
        "of thin volumes together the largest has to fit what is free, and not their sum",
        "ledger/claims/bookings.py",
        "max(largest.get(physical, 0), booking.size_gb)",
        "largest.get(physical, 0) + booking.size_gb",
        (BOOKINGS,),
    ),
    Mutation(
        "thick volumes are not bound by the ratio",
        "ledger/claims/bookings.py",
        "            thick_sum = physical + booking.physical_gb\n",
        "            thick_sum = physical + booking.physical_gb\n            thin_sum = size + booking.size_gb\n",
        (BOOKINGS,),
    ),
    Mutation(
        "thick volumes take what is free at once",
        "scheduler/decisions/pool_selection.py",
        "return request.size_gb if placement.provisioning is Provisioning.THICK else min(request.size_gb, copied_gb)",
        "return min(request.size_gb, copied_gb)",
        (BOOKINGS,),
    ),
    Mutation(
        "who was too late reads the rows",
        "scheduler/decisions/placer.py",
        "                contested |= changed_pools.pool_ids\n",
        "                pass\n",
        (PLACEMENT,),
    ),
    Mutation(
        "a refusal is final by the ledger alone",
        "scheduler/decisions/placer.py",
        "_further(batch.doubtful, final)) and not self.alone(session):",
        "_further(batch.doubtful, final)) and False:",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "who is refused only once others have been looked after is not refused by memory",
        "scheduler/decisions/placer.py",
        "            batch = decide()\n        return batch",
        "            batch = decide()\n            break\n        return batch",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "room that a report brought before the others were booked refuses nobody",
        "scheduler/reports/cache_refresh.py",
        "!= (known[row.id].epoch, known[row.id].seq):",
        "!= (row.epoch, row.report_seq):",
        (MEANWHILE,),
    ),
    Mutation(
        "room that was given back before the others were booked refuses nobody",
        "scheduler/reports/cache_refresh.py",
        "        pools = [pool for pool in map(self.hosts.table.get, names) if pool]\n",
        "        pools = []\n",
        (MEANWHILE,),
    ),
    Mutation(
        "what came before the others were booked is told by what is counted with them",
        "scheduler/decisions/placer.py",
        "            if not self._cache_refresh.refresh_candidates(",
        "            self._decider.forget()\n            if not self._cache_refresh.refresh_candidates(",
        (MEANWHILE,),
    ),
    Mutation(
        "where a group goes is not settled by memory alone",
        "scheduler/decisions/decider.py",
        "    return [replace(resolved.request, backends=None), *resolved.group.asks]",
        "    return [replace(resolved.request, backends=None)]",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "who is asked for together is not refused by memory for being together",
        "scheduler/decisions/decider.py",
        "anywhere = replace(one.request, same_backends=None)",
        "anywhere = one.request",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "who may stay with another type is not refused by memory as it cannot move",
        "scheduler/decisions/decider.py",
        "                batch.doubtful.append(request)\n",
        "                pass\n",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "a scheduler that has become the only one reads the counters of all pools",
        "scheduler/claims/sweep.py",
        "everything=not was_alone",
        "everything=False",
        (PERIODIC_TASKS,),
    ),
    Mutation(
        "who looks at figures refuses by those of the ledger",
        "scheduler/reports/cache_refresh.py",
        "filters.admitted(",
        "filters.candidates(",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "who starts goes by the rules of those that are up",
        "ledger/inventory/scheduling_rules.py",
        "        if found := _compare(me, row.default_ratio, row.calculation, others[0].host):\n",
        "        if found := _compare(me, me.default_ratio, me.calculation, others[0].host):\n",
        (RULES,),
    ),
    Mutation(
        "claims are spread to the others on the storage",
        "ledger/claims/bookings.py",
        "pool_counters.spread(session, terms.storage_id, terms.pool_id, terms.size, terms.physical)",
        "pass",
        (BOOKINGS,),
        quick=True,
    ),
    Mutation(
        "pools of one storage see each other within a batch",
        "ledger/claims/bookings.py",
        "if mixed or shares:",
        "if mixed:",
        (BOOKINGS,),
    ),
    Mutation(
        "the key of a request is looked up",
        "scheduler/decisions/placer.py",
        "known = request_keys.find(session, [key for item in work if (key := key_of(item))])",
        "known = {}",
        (BOOKINGS,),
    ),
    Mutation(
        "the key of a request is kept",
        "ledger/claims/request_keys.py",
        "    if not keys:\n        return\n    session",
        "    if keys:\n        return\n    session",
        (BOOKINGS,),
    ),
    Mutation(
        "the answer of a refused request is kept",
        "scheduler/decisions/decider.py",
        "        if resolved.keyed:\n",
        "        if resolved.keyed and answer.refusal is None:\n",
        (REFUSALS_KEPT,),
    ),
    Mutation(
        "a volume is not extended while it is cloned",
        "ledger/claims/clone_sources.py",
        "    if grown and (cloned := being_cloned(session, grown)):",
        "    if not grown and (cloned := being_cloned(session, grown)):",
        (CLONES,),
    ),
    Mutation(
        "a volume is not cloned by what it was before",
        "ledger/claims/clone_sources.py",
        "cloneable.get(source) != as_seen:",
        "source not in cloneable:",
        (CLONES,),
    ),
    Mutation(
        "a volume is not cloned while it changes",
        "ledger/claims/clone_sources.py",
        "            if row.status in CLONEABLE:\n",
        "            if row.status:\n",
        (CLONES,),
    ),
    Mutation(
        "a volume that waits for another pool is being cloned",
        "ledger/claims/clone_sources.py",
        'volume.status == "creating", volume.source_volume_id.in_(chunk)',
        'volume.status == "creating", volume.pool_id.is_not(None), volume.source_volume_id.in_(chunk)',
        (CLONES,),
    ),
    Mutation(
        "no more is copied than was claimed",
        "ledger/inventory/backends.py",
        "size = size or claim.physical_gb or claim",
        "size = size or claim",
        (CLONES,),
    ),
    Mutation(
        "a delete that was refused takes no effect later",
        "ledger/claims/deletions.py",
        "            known.setdefault(request_id, refused)\n",
        "",
        (REDELIVERY,),
    ),
    Mutation(
        "an unmanage that was refused takes no effect later",
        "scheduler/claims/volume_operations.py",
        "                self._database.run(request_keys.keep, [refused])",
        "                self._database.run(request_keys.keep, [])",
        (REDELIVERY,),
    ),
    Mutation(
        "an extend that was refused as its volume was in use takes no effect later",
        "scheduler/decisions/decider.py",
        "                if key and isinstance(error, FINAL):\n",
        "                if False:\n",
        (REDELIVERY,),
    ),
    Mutation(
        "a delete that was granted is granted again",
        "ledger/claims/deletions.py",
        "                known[request_id] = request_keys.Key(request_id, volume_id, bookings.DELETE)\n",
        "",
        (REDELIVERY,),
    ),
    Mutation(
        "the key of a request lives as long as its volume",
        "ledger/claims/request_keys.py",
        ".where(key.counted_from < before, ~sa.exists().where(volume.id == key.volume_id))",
        ".where(key.counted_from < before)",
        (KEYS_KEPT,),
    ),
    Mutation(
        "the key of a request lives for a while after its volume",
        "ledger/claims/operation_outcomes.py",
        "        .values(counted_from=models.utcnow())\n",
        "        .values(counted_from=models.RequestKey.counted_from)\n",
        (KEYS_KEPT,),
    ),
    Mutation(
        "who may write to a file has its lock from the beginning",
        "ledger/db/dialects.py",
        '"BEGIN" if read_only else "BEGIN IMMEDIATE"',
        '"BEGIN"',
        (DATABASE,),
    ),
    Mutation(
        "a row that is read again in a transaction is read as it is now",
        "ledger/db/database.py",
        'isolation_level="READ COMMITTED"',
        'isolation_level="REPEATABLE READ"',
        (CONTENTION,),
    ),
    Mutation(
        "rows are locked in one order",
        "ledger/claims/pool_counters.py",
        "for key, size in sorted(added.items()) if size]",
        "for key, size in added.items() if size]",
        (CONTENTION,),
    ),
    Mutation(
        "what is in flight is summed once the pools are locked, in a statement of its own",
        "ledger/claims/pool_counters.py",
        "    of_backends = sa.select(backend.id, backend.epoch).order_by(backend.id).with_for_update()\n"
        "    epochs = [\n"
        "        row\n"
        "        for chunk in chunks.cut(sorted(backend_ids))\n"
        "        for row in session.execute(of_backends.where(backend.id.in_(chunk)))\n"
        "    ]\n"
        "    of_pools = (\n"
        "        sa.select(pool.id, pool.backend_id, pool.storage_id, pool.covers_epoch, pool.covers_tick)\n"
        "        .order_by(pool.id)\n"
        "        .with_for_update()\n"
        "    )\n",
        "    of_backends = sa.select(backend.id, backend.epoch).order_by(backend.id)\n"
        "    epochs = [\n"
        "        row\n"
        "        for chunk in chunks.cut(sorted(backend_ids))\n"
        "        for row in session.execute(of_backends.where(backend.id.in_(chunk)))\n"
        "    ]\n"
        "    of_pools = (\n"
        "        sa.select(pool.id, pool.backend_id, pool.storage_id, pool.covers_epoch, pool.covers_tick)\n"
        "        .order_by(pool.id)\n"
        "    )\n",
        (SUMS,),
    ),
    Mutation(
        "what a lost connection may have kept from being committed is run again",
        "ledger/db/db_errors.py",
        "return is_collision(error) or is_away(error)",
        "return is_collision(error)",
        (LOST_COMMITS,),
    ),
    Mutation(
        "a volume is moved only from where the decision saw it",
        "ledger/claims/bookings.py",
        '        _VOLUME.pool_id == sa.bindparam("from_pool"),\n',
        '        sa.or_(sa.true(), _VOLUME.pool_id == sa.bindparam("from_pool")),\n',
        (BOOKINGS,),
    ),
    Mutation(
        "containment is looked at when a report is applied",
        "ledger/inventory/reports.py",
        'sa.and_(_CLAIM.c.end_epoch == sa.bindparam("epoch"), _CLAIM.c.end_tick < sa.bindparam("covers")),',
        'sa.and_(_CLAIM.c.end_epoch == sa.bindparam("epoch"), sa.bindparam("covers") >= 0),',
        (SHARED,),
        quick=True,
    ),
    Mutation(
        "containment is looked at when a confirmation arrives",
        "ledger/claims/settlement.py",
        "return (ending.epoch, ending.tick) < self.locked.covers[claim.pool_id]",
        "return True",
        (SHARED,),
    ),
    Mutation(
        "a claim of an older epoch is contained",
        "ledger/inventory/reports.py",
        '        _CLAIM.c.end_epoch < sa.bindparam("epoch"),\n',
        '        _CLAIM.c.end_epoch > sa.bindparam("epoch"),\n',
        (EPOCHS,),
    ),
    Mutation(
        "a report of another epoch is not applied",
        "ledger/inventory/reports.py",
        "known = (epoch, seq, rules) == (report.epoch, report.base, report.rules)",
        "known = (seq, rules) == (report.base, report.rules)",
        (SHARED,),
    ),
    Mutation(
        "a report that comes late is not applied",
        "ledger/inventory/reports.py",
        "if known and seq < report.seq and covers <= report.covers:",
        "if known and covers <= report.covers:",
        (SHARED,),
    ),
    Mutation(
        "a report does not cover less than the one before",
        "ledger/inventory/reports.py",
        "if known and seq < report.seq and covers <= report.covers:",
        "if known and seq < report.seq:",
        (SHARED,),
    ),
    Mutation(
        "a report was compared with the one that was applied last",
        "ledger/inventory/reports.py",
        "known = (epoch, seq, rules) == (report.epoch, report.base, report.rules)",
        "known = (epoch, rules) == (report.epoch, report.rules)",
        (SHARED,),
    ),
    Mutation(
        "a failure drops a claim at once only if it was verified as clean",
        "ledger/claims/settlement.py",
        "verified_clean = ending.clean and not ending.ok",
        "verified_clean = not ending.ok",
        (SHARED,),
    ),
    Mutation(
        "what a failed create has left stays counted",
        "ledger/claims/operation_outcomes.py",
        "    if ending.size_gb > 0:\n        # It has failed, but a",
        "    if False:\n        # It has failed, but a",
        (PLACEMENT,),
    ),
    Mutation(
        "a claim ends once",
        "ledger/claims/operation_outcomes.py",
        "        elif claim.state == pool_counters.PENDING:\n",
        "        else:\n",
        (SHARED,),
    ),
    Mutation(
        "an ending of a past epoch is ignored",
        "ledger/claims/operation_outcomes.py",
        "if by_id[claim.id].epoch != work.locked.epochs[claim.backend_id]:",
        "if False:",
        (EPOCHS,),
    ),
    Mutation(
        "each agent process has an epoch of its own",
        "ledger/inventory/backends.py",
        "        backend.epoch += 1\n",
        "        backend.epoch = max(1, backend.epoch)\n",
        (REPORT_HANDLER,),
    ),
    Mutation(
        "a hello that comes twice opens one epoch",
        "ledger/inventory/backends.py",
        "    if backend.nonce != nonce:\n",
        "    if True:\n",
        (REPORT_HANDLER,),
    ),
    Mutation(
        "what a volume has is given back when it is gone, not when it is told to go",
        "ledger/claims/deletions.py",
        "    session.add(claim)\n    volume.status",
        "    session.add(claim)\n"
        "    pool_counters.add_to_backends(session, {pools[volume.pool_id]: -volume.size_gb})\n"
        "    pool_counters._add(session, pool_counters._ADD_TO_POOL, {volume.pool_id: -volume.size_gb})\n"
        "    volume.status",
        (DELETIONS,),
    ),
    Mutation(
        "what the figures contain is not in flight again when it is deleted",
        "ledger/claims/settlement.py",
        "claim.contained = claim.contained or self._is_contained(claim, ending)",
        "claim.contained = self._is_contained(claim, ending)",
        (DELETIONS,),
    ),
    Mutation(
        "of an extend that failed what has grown stays counted",
        "ledger/claims/operation_outcomes.py",
        "elif reached > before:",
        "elif False:",
        (ENDINGS,),
    ),
    Mutation(
        "what is taken over is not in flight where the figures contain it",
        "ledger/claims/operation_outcomes.py",
        "claim.contained = not thick and before is not None and before >= size",
        "claim.contained = False",
        (MANAGES,),
    ),
    Mutation(
        "what is taken over is in flight where the figures may lack it",
        "ledger/claims/operation_outcomes.py",
        "claim.contained = not thick and before is not None and before >= size",
        "claim.contained = True",
        (MANAGES,),
    ),
    Mutation(
        "what is let go of counts as others'",
        "ledger/claims/deletions.py",
        "    pool.external_gb += size\n",
        "",
        (REDELIVERY,),
    ),
    Mutation(
        "what is let go of is not allocated any more",
        "ledger/claims/deletions.py",
        "    pool_counters.add_to_pools(session, locked, {pool_id: -size})\n",
        "",
        (REDELIVERY,),
    ),
    Mutation(
        "a list says nothing of what was in hand",
        "ledger/inventory/listings.py",
        "claim_id not in listing.in_hand and (epoch or 0, tick or 0) < listing.moment",
        "(epoch or 0, tick or 0) < listing.moment",
        (LISTINGS,),
    ),
    Mutation(
        "a list that arrives after a later one says nothing",
        "ledger/inventory/listings.py",
        "if last is None or tuple(last) >= (epoch, tick):",
        "if last is None:",
        (LISTINGS,),
    ),
    Mutation(
        "of two lists that are recorded at once one is done again",
        "ledger/inventory/listings.py",
        "    if recorded.rowcount != 1:\n",
        "    if False:\n",
        (LISTINGS,),
    ),
    Mutation(
        "no list of before an unmanage takes back what it left there",
        "ledger/claims/deletions.py",
        "    listings.outdate(session, pool.backend_id, epoch, tick)\n",
        "",
        (LISTINGS,),
    ),
    Mutation(
        "a list that had in hand what is forgotten takes nothing from what others have",
        "ledger/inventory/listings.py",
        "        if self.vague:\n",
        "        if False:\n",
        (LISTINGS,),
    ),
    Mutation(
        "before a refusal counters are read before figures, and not after them",
        "scheduler/reports/cache_refresh.py",
        "        return self.refresh(session) or changed\n",
        "        changed |= self.refresh(session)\n"
        "        self.refresh_counters(session, ids)\n"
        "        return changed\n",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "the figures of a pool that was written since the cached report are read again",
        "scheduler/host_manager.py",
        " and mark.covers < (known.epoch, known.covers)",
        "",
        (TWO_SCHEDULERS,),
    ),
    Mutation(
        "what is left of a volume that is no more keeps nothing beside it from being counted",
        "ledger/inventory/listings.py",
        "        .join(volume, volume.id == claim.volume_id)\n",
        "",
        (LISTINGS,),
    ),
    Mutation(
        "a list says nothing of what ended after it",
        "ledger/inventory/listings.py",
        "claim_id not in listing.in_hand and (epoch or 0, tick or 0) < listing.moment",
        "claim_id not in listing.in_hand",
        (LISTINGS,),
    ),
    Mutation(
        "a command that nothing is heard of is sent again",
        "scheduler/claims/dispatcher.py",
        "if sent is None or now - sent.last_news >= self._lease:",
        "if sent is None:",
        (DISPATCHER,),
    ),
    Mutation(
        "an abandoned claim stays counted",
        "ledger/claims/pool_counters.py",
        "LIVE = (PENDING, CONFIRMED, ABANDONED)",
        "LIVE = (PENDING, CONFIRMED)",
        (SHARED,),
    ),
    Mutation(
        "what an abandoned claim may have made is purged",
        "ledger/claims/operation_outcomes.py",
        "    claim.state = pool_counters.ABANDONED\n    work.purge(claim, claim.pool_id)\n",
        "    claim.state = pool_counters.ABANDONED\n",
        (SHARED,),
    ),
    Mutation(
        "where a volume was moved from stays counted until it is purged",
        "ledger/claims/operation_outcomes.py",
        "        work.purge(claim, claim.source_pool_id)\n",
        "        work.release(claim, ending)\n",
        (SHARED,),
    ),
    Mutation(
        "no volume is moved to a pool that still holds a copy of it",
        "scheduler/decisions/request_spec.py",
        "attempted=lookup.copies.get(volume.id, frozenset()) | {volume.pool.name},",
        "attempted=frozenset([volume.pool.name]),",
        (RESOLUTION,),
    ),
    Mutation(
        "who waits for a pool waits for those that it names",
        "scheduler/decisions/request_spec.py",
        "    if other is not None:\n        raise NotFirst",
        "    if False:\n        raise NotFirst",
        (BONDS,),
    ),
    Mutation(
        "one of those that name one another goes first",
        "scheduler/decisions/request_spec.py",
        "    if lookup.bonds.beside(volume):\n",
        "    if False:\n",
        (BONDS,),
    ),
    Mutation(
        "nobody is refused another pool before it is settled where those are made that it names",
        "scheduler/decisions/decider.py",
        "if isinstance(decision, Refusal) and resolved.unsettled is not None:",
        "if False:",
        (BONDS,),
    ),
    Mutation(
        "who is placed by where another is sees where that is when it is booked",
        "ledger/claims/clone_sources.py",
        "if pools.get(other) != pool_id:",
        "if False:",
        (BONDS,),
    ),
    Mutation(
        "nobody waits for one that has no place either",
        "scheduler/decisions/affinity_order.py",
        "if each.status == _CREATING and each.pool_id is not None",
        "if each.status == _CREATING",
        (BONDS,),
    ),
    Mutation(
        "stamps tell what the figures of another backend contain",
        "ledger/claims/pool_counters.py",
        "return claim.end_stamp is not None and bool(claim.end_stamp <= coverage.covers_stamp)",
        "return True",
        (SHARED,),
        quick=True,
    ),
    Mutation(
        "a claim that ends is given the stamp of the next look",
        "ledger/claims/settlement.py",
        "self.stamps.get(storage_id, 0) + 1",
        "self.stamps.get(storage_id, 0)",
        (SHARED,),
    ),
    Mutation(
        "what is released counts for the others on the storage until they have seen it",
        "ledger/claims/pool_counters.py",
        "        for claim in claims:\n            self._sizes",
        "        for claim in (each for each in claims if each.state in LIVE):\n            self._sizes",
        (SHARED,),
    ),
    Mutation(
        "no claims are kept for pools that are no longer reported",
        "ledger/claims/pool_counters.py",
        "reported = {row.id: coverages[row.id] for row in pools if row.present}",
        "reported = {row.id: coverages[row.id] for row in pools}",
        (SHARED,),
    ),
    Mutation(
        "a volume that has moved meanwhile is not grown where it was",
        "ledger/claims/bookings.py",
        '        _VOLUME.pool_id == sa.bindparam("in_pool"),\n',
        "",
        (BOOKINGS,),
    ),
    Mutation(
        "external volumes of the others on the storage count",
        "ledger/claims/pool_counters.py",
        "int(row.allocated_capacity_gb) + math.ceil(row.external_gb)",
        "int(row.allocated_capacity_gb)",
        (SHARED,),
    ),
    Mutation(
        "a group is fitted jointly",
        "scheduler/decisions/group_packing.py",
        "        self.pools.claim(index, size, physical)\n        self._count(index, 1)\n"
        "        self._placed[number] = (index, size, physical)",
        "        self._placed[number] = (index, 0.0, 0.0)",
        (JOINT_FIT,),
    ),
    Mutation(
        "of a group none is placed if one is left over",
        "scheduler/decisions/decider.py",
        "            answer = GroupAnswer(refusal=found)\n",
        "            answer = GroupAnswer(refusal=found)\n"
        "            if isinstance(alone := self._fits(members[0].request), Placement):\n"
        "                self._plan(resolved[0], alone, batch)\n",
        (JOINT_FIT,),
    ),
    Mutation(
        "a group that does not fit in order is arranged otherwise",
        "scheduler/decisions/group_packing.py",
        "if self._tightly(by_size) or self._search(by_size):",
        "if False:",
        (JOINT_FIT,),
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
        "an agent works on a volume at one place at a time",
        "agent/operations.py",
        "if self._held or not queue or volume_id in self._running or self._epoch is None:",
        "if self._held or not queue or self._epoch is None:",
        (OPERATIONS,),
    ),
    Mutation(
        "a backend has one agent process at a time",
        "agent/lock.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        (LOCK,),
    ),
    Mutation(
        "an agent drops what waits in an epoch that is over",
        "agent/operations.py",
        "            self._epoch = epoch\n            self._queues.clear()\n",
        "            self._epoch = epoch\n",
        (BACKEND_AGENT,),
    ),
    Mutation(
        "an agent tells how an operation ended until a scheduler has heard it",
        "agent/outbox.py",
        "                    self._enqueue(letter, time.monotonic() + self._pauses.after(letter.attempts))\n",
        "                    del self._letters[letter.outcome.claim_id]\n",
        (OUTBOX,),
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
        "an agent lets brief operations end before it looks",
        "agent/snapshots.py",
        "operations.drained(self._quiet_wait if operations.brief(self._quiet_wait) else 0.0)",
        "operations.drained(0.0)",
        (BACKEND_AGENT,),
    ),
    Mutation(
        "an agent that shares a storage asks for stamps before it looks",
        "agent/snapshots.py",
        "if not found <= self._storages and (stamps := self._stamps(found)):",
        "if stamps := self._stamps(found):\n            pass\n        if False:",
        (BACKEND_AGENT,),
    ),
)
