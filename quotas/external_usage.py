# SPDX-License-Identifier: Apache-2.0
"""Usage that counts against quotas in addition to the ledger's volumes, read from another service."""

from collections.abc import Collection
from typing import Protocol

from tonnage.quotas.limits import Scope


class ExternalUsage(Protocol):
    """A source of external usage. Threads may share it."""

    def read(self, project_ids: Collection[str]) -> None:
        """Read the external usage of projects.

        It may wait for another service, so the caller must not hold locks.
        """

    def used_gb(self, scope: Scope) -> int:
        """Return the GiB used outside the ledger's volumes, by the last read; 0 if unknown."""


class NoExternalUsage:
    """No external usage: only the ledger's volumes count."""

    def read(self, project_ids: Collection[str]) -> None:
        """Do nothing."""

    def used_gb(self, scope: Scope) -> int:
        """Return 0."""
        return 0


NO_EXTERNAL_USAGE = NoExternalUsage()
