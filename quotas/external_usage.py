# SPDX-License-Identifier: Apache-2.0
"""Usage that counts against quotas in addition to the ledger's volumes, read from another service."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from tonnage.quotas.limits import Scope


class RecordCheck(Protocol):
    """The result of a comparison of the records that the other service has of the volumes with the written ones."""

    @property
    def has_drift(self) -> bool:
        """Whether a record was wrong."""

    @property
    def has_failed(self) -> bool:
        """Whether a wrong record could not be mended."""

    def differences_as_data(self) -> Sequence[dict[str, Any]]:
        """Return the differences as rows of a table."""

    def as_data(self) -> dict[str, Any]:
        """Return the result as keys of the JSON of ``tonnage-manage quota check``."""

    def summary(self, outcome: str) -> str:
        """Return a line about the records; ``outcome`` is a phrase about the fate of the wrong ones."""


class ExternalUsage(Protocol):
    """A source of external usage. Threads may share it."""

    def check_records(self, project_id: str | None, *, mend: bool) -> RecordCheck | None:
        """Compare the records of the other service, of one project or of all; None if it has none.

        With ``mend`` lost records are written again; the result is that of before. Raises
        :class:`~tonnage.capacity.errors.Unavailable`.
        """

    def read(self, project_ids: Collection[str]) -> None:
        """Read the external usage of projects.

        It may wait for another service, so the caller must not hold locks.
        """

    def used_gb(self, scope: Scope) -> int:
        """Return the GiB used outside the ledger's volumes, by the last read; 0 if unknown."""


class NoExternalUsage:
    """No external usage: only the ledger's volumes count."""

    def check_records(self, project_id: str | None, *, mend: bool) -> None:
        """Return None."""

    def read(self, project_ids: Collection[str]) -> None:
        """Do nothing."""

    def used_gb(self, scope: Scope) -> int:
        """Return 0."""
        return 0


NO_EXTERNAL_USAGE = NoExternalUsage()
