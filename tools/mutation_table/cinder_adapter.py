# SPDX-License-Identifier: Apache-2.0
"""Mutations of the rules of Tonnage in the place of Cinder's scheduler."""

from mutation_table import guards
from mutation_table.mutation import Mutation

MUTATIONS = (
    Mutation(
        "A volume in error ends no claim",
        "extensions/cinder/scheduler/claim_ends.py",
        ' and not row.status.startswith("error")',
        "",
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "A volume that is creating ends no claim",
        "extensions/cinder/scheduler/claim_ends.py",
        '"creating"',
        '"gone"',
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "A volume that is downloading ends no claim",
        "extensions/cinder/scheduler/claim_ends.py",
        '"downloading"',
        '"gone"',
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "A volume that is extending ends no claim",
        "extensions/cinder/scheduler/claim_ends.py",
        '"extending"',
        '"gone"',
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "A volume that is deleting ends no claim",
        "extensions/cinder/scheduler/claim_ends.py",
        '"deleting"',
        '"gone"',
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "A volume without a row ends its claims",
        "extensions/cinder/scheduler/claim_ends.py",
        "kept=False, deleted=True) for claim in volume_claims",
        "kept=True) for claim in volume_claims",
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "A volume in another pool, or in none, ends its claim",
        "extensions/cinder/scheduler/claim_ends.py",
        "    if row.pool != claim.pool or",
        "    if row.pool is not None and row.pool != claim.pool or",
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "The claim of a retype within a pool ends with it",
        "extensions/cinder/scheduler/claim_ends.py",
        " or claim.size_gb == 0:",
        ":",
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "The claim of a group holds until all its volumes have hosts",
        "extensions/cinder/scheduler/claim_ends.py",
        "all(row.pool is not None for row in members)",
        "True",
        (guards.CLAIM_ENDS, guards.CINDER_MODEL),
    ),
    Mutation(
        "The claim of a group without volumes holds for its lease",
        "extensions/cinder/scheduler/claim_ends.py",
        " if members else claim.age >= lease",
        " if members else True",
        (guards.CLAIM_ENDS, guards.CINDER_MODEL),
    ),
    Mutation(
        "The volumes of a group count from the moment at which its claim ends",
        "extensions/cinder/scheduler/cinder_ledger.py",
        "row.group_id or row.id",
        "row.id",
        (guards.CINDER_LEDGER,),
    ),
    Mutation(
        "A migration holds both pools until it ends",
        "extensions/cinder/scheduler/claim_ends.py",
        "    if claim.verb == claim_verbs.MIGRATE and not claim.ended and moving:\n        return None\n",
        "",
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "A claim that is not sent is given up after its lease only",
        "extensions/cinder/scheduler/claim_ends.py",
        " and claim.age < lease",
        " and claim.age < 0",
        (guards.CLAIM_ENDS,),
    ),
    Mutation(
        "Nothing is sent unless the row waits for a pool",
        "extensions/cinder/scheduler/placing.py",
        "    if not row.take(booking.pool_name):\n",
        "    if not row.take(booking.pool_name) and not booking.id:\n",
        (guards.PLACING,),
    ),
    Mutation(
        "Nothing is sent unless the claim is recorded as sent",
        "extensions/cinder/scheduler/placing.py",
        "    if not database.run(observed_claims.record_sent, booking.id):\n",
        "    if not database.run(observed_claims.record_sent, booking.id) and not booking.id:\n",
        (guards.PLACING,),
    ),
)
