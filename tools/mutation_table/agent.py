# SPDX-License-Identifier: Apache-2.0
"""Mutations of the rules of agents."""

from mutation_table import guards
from mutation_table.mutation import Mutation

MUTATIONS = (
    Mutation(
        "A volume whose operation has an unknown outcome counts until a removal has ended.",
        "agent/execution.py",
        "return OperationResult(ok=False, size_gb=float(command.size_gb), message=message)",
        "return OperationResult(ok=False, size_gb=0.0, clean=True, message=message)",
        (guards.OPERATIONS,),
    ),
    Mutation(
        "A repeated extend of a volume that cannot be looked at is repeated again.",
        "agent/execution.py",
        "        if is_repeated:\n            raise errors.OutcomeUnknown(message) from error\n",
        "",
        (guards.EXECUTION,),
    ),
    Mutation(
        "An extend that has not begun ends if the volume cannot be looked at.",
        "agent/execution.py",
        "        if is_repeated:\n            raise errors.OutcomeUnknown(message) from error\n",
        "        raise errors.OutcomeUnknown(message) from error\n",
        (guards.EXECUTION,),
    ),
    Mutation(
        "A repeated extend of a CSI volume is not admitted again.",
        "drivers/csi/driver.py",
        "if not has_begun:",
        "if True:",
        (guards.CSI_PROVISIONER,),
    ),
    Mutation(
        "A new extend of a CSI volume is admitted, whatever became of an earlier one.",
        "drivers/csi/volume_records.py",
        'operation_id != "" and (operation_id,) in rows.fetchall()',
        "bool(rows.fetchall())",
        (guards.CSI_PROVISIONER,),
    ),
    Mutation(
        "An agent refuses commands of another epoch.",
        "agent/operations.py",
        "if epoch is None or command.epoch != epoch.number:",
        "if epoch is None:",
        (guards.BACKEND_AGENT,),
    ),
    Mutation(
        "An agent executes each claim at most once.",
        "agent/operations.py",
        "record = self._records.get(command.claim_id)",
        "record = None",
        (guards.OPERATIONS,),
    ),
    Mutation(
        "An agent executes one operation at a time for each volume.",
        "agent/operations.py",
        "if self.suspended or not queue or volume_id in self._running or self._epoch is None:",
        "if self.suspended or not queue or self._epoch is None:",
        (guards.OPERATIONS,),
    ),
    Mutation(
        "A backend has one agent process at a time.",
        "agent/lock.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        (guards.LOCK,),
    ),
    Mutation(
        "An agent drops queued commands of an ended epoch.",
        "agent/operations.py",
        "            self._epoch = epoch\n            self._queues.clear()\n",
        "            self._epoch = epoch\n",
        (guards.BACKEND_AGENT,),
    ),
    Mutation(
        "An agent repeats an outcome until a scheduler confirms it.",
        "agent/outbox.py",
        "                    heapq.heappush(self._retries, (queued.retry_at, next(self._numbers), queued))\n",
        "                    del self._outcomes[queued.key]\n",
        (guards.OUTBOX,),
    ),
    Mutation(
        "An agent creates nothing for a deleted volume.",
        "agent/operations.py",
        "                elif command in self._removals:\n",
        "                elif False:\n",
        (guards.OPERATIONS,),
    ),
    Mutation(
        "An agent takes the tick of a report before the snapshot.",
        "agent/operations.py",
        "return next(self._reports), next(self._ticks)",
        "return next(self._reports), next(self._ticks) + 3",
        (guards.MODEL,),
    ),
    Mutation(
        "An agent waits for short operations before a snapshot.",
        "agent/snapshots.py",
        "operations.wait_idle(self._quiet_wait if operations.end_within(self._quiet_wait) else 0.0)",
        "operations.wait_idle(0.0)",
        (guards.BACKEND_AGENT,),
    ),
    Mutation(
        "An agent on shared storage asks for stamps before the snapshot.",
        "agent/snapshots.py",
        "stamps = self._request_stamps(shared) if shared else {}\n"
        "        return dataclasses.replace(self._collect(epoch), stamps=dict(stamps))",
        "report = self._collect(epoch)\n"
        "        return dataclasses.replace(report, stamps=dict(self._request_stamps(shared) if shared else {}))",
        (guards.BACKEND_AGENT,),
    ),
    Mutation(
        "An agent executes nothing until a scheduler has accepted its listing.",
        "agent/backend_agent.py",
        "        receipt = retry(self._send_first_listing,",
        "        self.operations.resume()\n        receipt = retry(self._send_first_listing,",
        (guards.BACKEND_AGENT,),
    ),
)
