# SPDX-License-Identifier: Apache-2.0
"""The messages of version 1.0 of the RPC, as the first release had them. They do not change any more."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Provisioning(enum.StrEnum):
    THIN = "thin"
    THICK = "thick"


class Calculation(enum.StrEnum):
    CINDER = "cinder"
    STANDARD = "standard"


@dataclass(frozen=True, slots=True)
class Rejection:
    code: str
    message: str
    numbers: Mapping[str, float | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    filter: str
    refused: int


@dataclass(frozen=True, slots=True)
class NearestMiss:
    pool: str
    filter: str
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class Refusal:
    what: str
    pools: int
    outcomes: tuple[FilterOutcome, ...] = ()
    nearest: NearestMiss | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class Weight:
    weigher: str
    raw: float
    scaled: float
    multiplier: float


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    pool: str
    filter: str | None = None
    rejection: Rejection | None = None
    weights: tuple[Weight, ...] = ()
    total_weight: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    what: str
    pool: str | None
    message: str
    verdicts: tuple[PoolVerdict, ...]


class Verb(enum.StrEnum):
    CREATE = "create"
    EXTEND = "extend"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    backend: str
    nonce: str
    availability_zone: str
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVolume:
    volume_id: str
    pool: str
    size_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    backend: str
    epoch: int
    tick: int
    volumes: list[ListedVolume]
    in_hand: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    backend: str
    epoch: int
    claim_id: str
    ok: bool
    end_tick: int
    size_gb: float = 0.0
    clean: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReport:
    backend: str
    epoch: int
    seq: int
    covers: int
    pools: list[dict[str, Any]]
    ended: list[Outcome] = field(default_factory=list)
    in_hand: list[str] = field(default_factory=list)
    age: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    claim_id: str
    epoch: int
    verb: Verb
    volume_id: str
    pool: str
    size_gb: int
    provisioning: Provisioning
    ratio: float
    calculation: Calculation
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVolume:
    request_id: str
    volume_id: str
    size_gb: int
    project_id: str
    user_id: str = ""
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    availability_zone: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendVolume:
    request_id: str
    volume_id: str
    new_size_gb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVolume:
    request_id: str
    volume_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    volume_id: str
    pool: str | None = None
    provisioning: Provisioning | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolQuery:
    name: str | None = None
    volume_type: str | None = None
    capabilities: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    name: str
    capabilities: dict[str, Any]
    capacity_factors: list[dict[str, Any]]
