# SPDX-License-Identifier: Apache-2.0
"""The mutations of the ledger's rules: each one changes a line of code that implements a rule, and names its tests."""

from mutation_table import agent, cinder_adapter, kubernetes, ledger_claims, ledger_records, moves, scheduler
from mutation_table.mutation import Mutation

__all__ = ["MUTATIONS", "Mutation"]

MUTATIONS = (
    *ledger_claims.MUTATIONS,
    *ledger_records.MUTATIONS,
    *scheduler.MUTATIONS,
    *agent.MUTATIONS,
    *cinder_adapter.MUTATIONS,
    *kubernetes.MUTATIONS,
    *moves.MUTATIONS,
)
