# SPDX-License-Identifier: Apache-2.0
"""The part of a create that quota takes, in processes of Cinder: reserve, make the row of the volume, commit.

The arguments are the driver, the URL of an empty database, the number of volumes of the project, and the number of
clients. The program makes the rows, forks the clients, and prints ``ready``. For each line that it reads, a number of
seconds, the clients create volumes for that time, and it prints the seconds of each create as a line of JSON.
"""

import json
import os
import sys
import time
import uuid
import warnings

warnings.simplefilter("ignore")
os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"

from cinder import objects  # noqa: E402

objects.register_all()

from cinder import context, quota  # noqa: E402
from cinder.common import config  # noqa: E402, F401
from cinder.db import migration  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

from tonnage.extensions.cinder import releases  # noqa: E402

CONF = cfg.CONF  # noqa: TID251  (Cinder's way)

PROJECT = "11111111111111111111111111111111"

#: Limits that are compared and never reached.
_LIMIT = 10_000_000

#: Creates of each client before the measurement.
_WARM_UP = 10


def fill(ctxt: context.RequestContext, volumes: int, volume_type_id: str) -> None:
    """Make the rows of the project, and as many of other projects."""
    cinder_db, models = releases.import_database()
    now = timeutils.utcnow()
    with cinder_db.main_context_manager.writer.using(ctxt) as session:
        session.execute(
            models.Volume.__table__.insert(),
            [
                {
                    "id": str(uuid.uuid4()),
                    "created_at": now,
                    "updated_at": now,
                    "deleted": False,
                    "use_quota": True,
                    "project_id": project,
                    "user_id": PROJECT,
                    "size": 1,
                    "status": "available",
                    "attach_status": "detached",
                    "display_name": f"volume {number}",
                    "display_description": "",
                    "volume_type_id": volume_type_id,
                    "host": "host@backend#pool",
                    "availability_zone": "nova",
                }
                for number in range(volumes)
                for project in (PROJECT, f"{number % 10:032}")
            ],
        )


def create(ctxt: context.RequestContext, volume_type_id: str) -> None:
    """Do what the API does for a new volume."""
    deltas = {"volumes": 1, "gigabytes": 1}
    quota.QUOTAS.add_volume_type_opts(ctxt, deltas, volume_type_id)
    reservations = quota.QUOTAS.reserve(ctxt, **deltas)
    objects.Volume(
        context=ctxt,
        size=1,
        user_id=PROJECT,
        project_id=PROJECT,
        status="creating",
        attach_status="detached",
        display_name="new",
        volume_type_id=volume_type_id,
    ).create()
    quota.QUOTAS.commit(ctxt, reservations)


# The driver tells the operation by the name of Cinder's function.
create.__code__ = create.__code__.replace(co_qualname="QuotaReserveTask.execute")


def _client(orders: int, answers: int) -> None:
    """Create volumes for the seconds of each order, and answer with their times."""
    ctxt = context.RequestContext(user_id=PROJECT, project_id=PROJECT, is_admin=True)
    cinder_db, _ = releases.import_database()
    volume_type_id = cinder_db.volume_type_get_by_name(context.get_admin_context(), "__DEFAULT__")["id"]
    globals()["__name__"] = "cinder.volume.flows.api.create_volume"
    for _ in range(_WARM_UP):
        create(ctxt, volume_type_id)
    with os.fdopen(answers, "w") as output, os.fdopen(orders) as lines:
        print("ready", file=output, flush=True)
        for line in lines:
            taken = []
            until = time.monotonic() + float(line)
            while (began := time.monotonic()) < until:
                create(ctxt, volume_type_id)
                taken.append(time.monotonic() - began)
            print(json.dumps(taken), file=output, flush=True)


def _fill_in_process(volumes: int) -> None:
    """Make the tables and the rows in a process of their own: connections must not be inherited."""
    child = os.fork()
    if child == 0:
        migration.db_sync()
        cinder_db, _ = releases.import_database()
        ctxt = context.get_admin_context()
        fill(ctxt, volumes, cinder_db.volume_type_get_by_name(ctxt, "__DEFAULT__")["id"])
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the rows could not be made")


def main(driver: str, database: str, volumes: int, clients: int) -> None:
    """Serve orders until the end of the input."""
    CONF([], project="cinder", default_config_files=[])
    CONF.set_override("connection", database, group="database")
    for name, value in (("quota_driver", driver), ("quota_volumes", _LIMIT), ("quota_gigabytes", _LIMIT)):
        CONF.set_override(name, value)
    _fill_in_process(volumes)
    pipes = []
    for _ in range(clients):
        (orders_out, orders_in), (answers_out, answers_in) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(orders_in)
            for earlier, _ in pipes:
                earlier.close()  # or this client would hold the orders of the others open
            _client(orders_out, answers_in)
            os._exit(0)
        os.close(orders_out)
        os.close(answers_in)
        pipes.append((os.fdopen(orders_in, "w"), os.fdopen(answers_out)))
    if any(answers.readline() != "ready\n" for _, answers in pipes):
        sys.exit("a client failed")
    print("ready", flush=True)
    for line in sys.stdin:
        for orders, _ in pipes:
            orders.write(line)
            orders.flush()
        print(json.dumps([seconds for _, answers in pipes for seconds in json.loads(answers.readline())]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
