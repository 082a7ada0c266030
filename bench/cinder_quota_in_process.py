# SPDX-License-Identifier: Apache-2.0
"""The part of a create that quota takes, within one process of Cinder: reserve, make the row of the volume, commit.

The arguments are the driver, the URL of Cinder's database, the number of volumes that the project has (0: do not make
them, they are there), and the seconds to measure. The program prints ``ready``, begins when it reads a line, and
prints the seconds of each create as a line of JSON.
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


# The driver knows operations by the names of Cinder's functions.
create.__code__ = create.__code__.replace(co_qualname="QuotaReserveTask.execute")
_GLOBALS = create.__globals__


def main(driver: str, database: str, volumes: int, seconds: float) -> None:
    """Measure."""
    CONF([], project="cinder", default_config_files=[])
    CONF.set_override("connection", database, group="database")
    for name, value in (("quota_driver", driver), ("quota_volumes", _LIMIT), ("quota_gigabytes", _LIMIT)):
        CONF.set_override(name, value)
    ctxt = context.RequestContext(user_id=PROJECT, project_id=PROJECT, is_admin=True)
    if volumes:
        migration.db_sync()
    cinder_db, _ = releases.import_database()
    volume_type_id = cinder_db.volume_type_get_by_name(context.get_admin_context(), "__DEFAULT__")["id"]
    if volumes:
        fill(ctxt, volumes, volume_type_id)
        return
    _GLOBALS["__name__"] = "cinder.volume.flows.api.create_volume"
    for _ in range(5):
        create(ctxt, volume_type_id)
    print("ready", flush=True)
    sys.stdin.readline()
    taken = []
    until = time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        create(ctxt, volume_type_id)
        taken.append(time.monotonic() - began)
    print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
