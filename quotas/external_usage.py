# SPDX-License-Identifier: Apache-2.0
"""What counts against quotas beside the ledger's volumes, known from elsewhere."""

from collections.abc import Collection
from typing import Protocol

from tonnage.quotas.limits import Scope


class Beside(Protocol):
    """Safe to use from many threads."""

    def read(self, project_ids: Collection[str]) -> None:
        """Find out what there is for projects. It may wait for others, so it is to be called where nothing is held."""

    def beyond(self, scope: Scope) -> int:
        """Return how many GiB are used beside the ledger's volumes, by what was read last; 0 if that is not known."""


class Nothing:
    """Nothing but the ledger's volumes counts."""

    def read(self, project_ids: Collection[str]) -> None:
        """There is nothing to be found out."""

    def beyond(self, scope: Scope) -> int:
        """Return 0."""
        return 0


NOTHING = Nothing()
