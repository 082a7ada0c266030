# SPDX-License-Identifier: Apache-2.0
"""The contract between the processes: one row for each RPC method.

Clients send messages as their rows say, :class:`tonnage.rpc.handlers.Endpoint` serves a handler for each row, and the
tables in docs/rpc.rst are made from the rows. So a row is the only place in which a method is spelt. Extensions of the
schedulers have rows of their own. :mod:`tonnage.rpc.messages` has the types of the messages.
"""

import enum
from dataclasses import dataclass
from types import NoneType
from typing import Generic, TypeVar

from tonnage.capacity.explanation import Explanation
from tonnage.rpc import messages
from tonnage.rpc.packed_reports import PackedReport

Message = TypeVar("Message")
Answer = TypeVar("Answer")


#: The topic of the messages with which the backends of agents join. Requests have another queue, so that neither wait
#: for the others, however many agents start at once.
TOPIC_JOINS = "tonnage-joins"


class Delivery(enum.StrEnum):
    """The way of a message to its server."""

    #: To any server, which answers. Without an answer the message is sent again, so the method takes effect only once.
    CALL = "call"
    #: The same, but the message is sent once: the method may take long, or a second message could undo a later change.
    SINGLE_CALL = "call, sent once"
    #: A call that travels in a message of :data:`REQUEST_BATCH`; the method's name is the field of that message.
    BATCHED_CALL = "call, in a batch"
    #: To any server or to the named one, without an answer.
    CAST = "cast"
    #: To all servers, without an answer.
    FANOUT = "fanout cast"


@dataclass(frozen=True, slots=True)
class Method(Generic[Message, Answer]):
    """A method: its name on the bus, the types of its message and its answer, and its meaning.

    ``NoneType`` stands for a method without a message or without an answer. A ``keyed`` method takes a
    :class:`~tonnage.rpc.messages.KeyedRequest`; the client dates it, and the server checks its request id. ``timeout``
    is the longest time in seconds to wait for the answer, if it is shorter than ``rpc_response_timeout``. ``topic`` is
    the topic of a method that has another one than the other methods of its servers.
    """

    name: str
    message: type[Message]
    answer: type[Answer]
    meaning: str
    delivery: Delivery = Delivery.CALL
    keyed: bool = False
    timeout: float | None = None
    topic: str | None = None


# The methods of schedulers that agents call.

#: The longest time in seconds for which an agent waits for the answer to a hello.
LONGEST_HELLO = 60.0

#: It may be repeated at once; the bus drops one without a scheduler. Agents wait longer after each without an answer,
#: and say hello again themselves: a second message in the same call would be more work for a scheduler with too much.
HELLO = Method(
    "hello",
    messages.Hello,
    messages.Welcome,
    "an agent process introduces a backend and gets its epoch",
    Delivery.SINGLE_CALL,
    timeout=5.0,
    topic=TOPIC_JOINS,
)
#: It takes long if there are many volumes.
LISTING = Method(
    "listing",
    messages.Listing,
    messages.Receipt,
    "all volumes on a backend",
    Delivery.SINGLE_CALL,
    topic=TOPIC_JOINS,
)
REPORT = Method(
    "report",
    PackedReport,
    NoneType,
    "figures of a backend's pools; the next report makes up for a lost one",
    Delivery.FANOUT,
)
NOTICE = Method(
    "notice",
    messages.Notice,
    NoneType,
    "a backend sends no report, because its agent stops or cannot use the storage",
    Delivery.FANOUT,
)
#: A report is sent without stamps after this time.
STAMPS = Method(
    "stamps",
    messages.StampQuery,
    dict[str, int],
    "stamps of shared storages, by storage id, for a report that has not begun",
    timeout=2.0,
)
#: Outcomes are sent again after this time, which is safe.
OUTCOMES = Method(
    "outcomes",
    messages.Outcomes,
    list[messages.Receipt],
    "outcomes of commands of one backend; a receipt for each",
    timeout=10.0,
)

# The methods of schedulers that the API and commands call.

CREATE_VOLUME = Method(
    "creates",
    messages.CreateVolume,
    messages.Answer,
    "place and create a volume",
    Delivery.BATCHED_CALL,
    keyed=True,
)
EXTEND_VOLUME = Method(
    "extends", messages.ExtendVolume, messages.Answer, "grow a volume in its pool", Delivery.BATCHED_CALL, keyed=True
)
DELETE_VOLUME = Method(
    "deletes", messages.DeleteVolume, NoneType, "begin the deletion of a volume", Delivery.BATCHED_CALL, keyed=True
)
REQUEST_BATCH = Method(
    "request_batch",
    messages.RequestBatch,
    object,
    "independent creates, extends and deletes; a list with the answer to each in its envelope",
)
CREATE_GROUP = Method(
    "create_group",
    messages.CreateGroup,
    messages.GroupAnswer,
    "place and create several volumes, all or none",
    keyed=True,
)
MIGRATE_VOLUME = Method(
    "migrate_volume", messages.MigrateVolume, messages.Answer, "move a volume to another pool", keyed=True
)
RETYPE_VOLUME = Method(
    "retype_volume",
    messages.RetypeVolume,
    messages.Answer,
    "give a volume another type, in its pool or, if allowed, in another",
    keyed=True,
)
MANAGE_VOLUME = Method(
    "manage_volume", messages.ManageVolume, NoneType, "adopt a volume that is on the storage already", keyed=True
)
UNMANAGE_VOLUME = Method(
    "unmanage_volume",
    messages.UnmanageVolume,
    NoneType,
    "remove a volume from the ledger and leave it on the storage",
    keyed=True,
)
SET_BACKEND_STATE = Method(
    "set_backend_state",
    messages.SetBackendState,
    NoneType,
    "enable, disable or drain a backend",
    Delivery.SINGLE_CALL,
)
LIST_BACKENDS = Method("list_now", messages.ListBackends, NoneType, "have agents list all volumes soon", Delivery.CAST)
GET_POOLS = Method(
    "get_pools", messages.PoolQuery, list[messages.PoolView], "pools with capabilities and capacity factors"
)
GET_POOL_LIST = Method(
    "get_pool_list", messages.PoolListQuery, list[messages.PoolListText], "the same as JSON of the REST API"
)
EXPLAIN = Method(
    "explain",
    messages.CreateVolume,
    Explanation,
    "the decision that a create would get now, pool by pool; no side effect",
    Delivery.SINGLE_CALL,
)
WHAT_IF = Method(
    "what_if",
    messages.WhatIf,
    list[messages.SimulationResult],
    "the decisions that requests of any kind would get one after another, with or without hypothetical changes; no "
    "side effect",
    Delivery.SINGLE_CALL,
)

#: The methods that every scheduler serves, without those that travel in batches.
SCHEDULER_METHODS = (
    HELLO,
    LISTING,
    REPORT,
    NOTICE,
    STAMPS,
    OUTCOMES,
    REQUEST_BATCH,
    CREATE_GROUP,
    MIGRATE_VOLUME,
    RETYPE_VOLUME,
    MANAGE_VOLUME,
    UNMANAGE_VOLUME,
    SET_BACKEND_STATE,
    LIST_BACKENDS,
    GET_POOLS,
    GET_POOL_LIST,
    EXPLAIN,
    WHAT_IF,
)

#: The methods that travel in batches, in the order of their requests and answers in a batch.
BATCHED_METHODS = (CREATE_VOLUME, EXTEND_VOLUME, DELETE_VOLUME)

# The methods of the agent of one backend.

RUN = Method("run", messages.Commands, NoneType, "operations on volumes, taken in their order", Delivery.CAST)
REPORT_NOW = Method("report_now", NoneType, NoneType, "report soon", Delivery.CAST)
LIST_NOW = Method("list_now", NoneType, NoneType, "list all volumes soon", Delivery.CAST)
TAKE_STAMPS = Method(
    "take_stamps",
    messages.SharedStorages,
    NoneType,
    "take stamps before each look at these storages, and report soon",
    Delivery.CAST,
)
REJOIN = Method(
    "rejoin", NoneType, NoneType, "the ledger does not know this agent's epoch; say hello again", Delivery.CAST
)

#: The methods that every agent serves.
AGENT_METHODS = (RUN, REPORT_NOW, LIST_NOW, TAKE_STAMPS, REJOIN)
