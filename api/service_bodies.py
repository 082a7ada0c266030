# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests about schedulers and backends."""

from typing import Annotated
from typing import TypeAlias

from msgspec import Struct

from tonnage.api.fields import Key
from tonnage.api.fields import Text
from tonnage.api.fields import also
from tonnage.api.fields import some_of
from tonnage.ledger import services

#: What Cinder calls the same.
SERVICE_NAMES = {"cinder-volume": services.AGENT, "cinder-scheduler": services.SCHEDULER}
_BINARIES = (services.AGENT, services.SCHEDULER)
_BINARY: TypeAlias = Annotated[Text | None, also(enum=[None, *_BINARIES, *SERVICE_NAMES])]


class ServiceChange(Struct, kw_only=True):
    """``PUT /os-services/{action}``: of a backend or a scheduler. ``service`` is an old name for ``binary``."""

    host: Key
    binary: _BINARY = None
    service: _BINARY = None
    disabled_reason: Text | None = None

    def __post_init__(self) -> None:
        if not (self.binary or self.service):
            raise ValueError("missing required field binary")
        for asked in (self.binary, self.service):
            if asked and SERVICE_NAMES.get(asked, asked) not in _BINARIES:
                raise ValueError(f"binary is {asked!r}: expected {' or '.join(_BINARIES)}")

    @property
    def of_scheduler(self) -> bool:
        """Whether it is about a scheduler."""
        asked = self.binary or self.service or ""
        return SERVICE_NAMES.get(asked, asked) == services.SCHEDULER


#: A change names what it is about by the new name or by the old one.
SERVICE_NAMED = some_of("binary", "service")
_BACKEND: TypeAlias = Annotated[Text | None, also(enum=[None, services.AGENT, "cinder-volume"])]


class ServiceDrain(ServiceChange, kw_only=True):
    """``PUT /os-services/drain``: of a backend alone."""

    binary: _BACKEND = None
    service: _BACKEND = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of_scheduler:
            raise ValueError("a scheduler has no volumes: only backends can be drained")


class ServiceReason(ServiceChange, kw_only=True):
    """``PUT /os-services/disable-log-reason``: the same with a reason."""

    disabled_reason: Annotated[Text, also(pattern=r"\S")]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.disabled_reason = self.disabled_reason.strip()
        if not self.disabled_reason:
            raise ValueError("disabled_reason is missing: say why, or use disable")
