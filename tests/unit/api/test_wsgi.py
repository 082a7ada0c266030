# SPDX-License-Identifier: Apache-2.0
"""The application for any WSGI server, in a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

from tests.servers import ledger_schema
from tonnage.ledger.db import database


def test_any_wsgi_server_can_load_the_application(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    engine.dispose()
    conf = tmp_path / "tonnage.conf"
    conf.write_text(
        "[DEFAULT]\ntransport_url = kombu+memory://\nnoauth_on_any_address = true\n"
        f"[database]\nconnection = sqlite:///{tmp_path}/ledger.sqlite\n"
    )
    program = (
        "import wsgiref.util, tonnage.api.wsgi as wsgi\n"
        "environ = {'PATH_INFO': '/v3/types'}\n"
        "wsgiref.util.setup_testing_defaults(environ)\n"
        "print(b''.join(wsgi.application(environ, lambda status, headers: print(status))).decode())\n"
    )
    environ = {**os.environ, "TONNAGE_CONFIG_FILES": str(conf)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    status, body = done.stdout.splitlines()[-2:]
    assert (status, [kind["name"] for kind in json.loads(body)["volume_types"]]) == ("200 OK", ["__DEFAULT__"])
