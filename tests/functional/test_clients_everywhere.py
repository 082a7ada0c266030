# SPDX-License-Identifier: Apache-2.0
"""Every documented command of every client against each deployment, with and without Keystone.

The normal suite has ``test_api_clients.py`` for one process without Keystone, and ``test_keystone.py`` for volumes with
Keystone.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator

import openstack
import pytest

from tests.functional import commands
from tests.functional.clients import Account, Clients
from tests.functional.commands import Cloud
from tests.functional.conftest import Deploy
from tests.functional.deployment import Credentials, Deployment
from tests.servers.keystone import PASSWORD, REGION, Keystone

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.parametrize("deploy", ["standalone", "postgresql", "mariadb"], indirect=True, scope="module"),
    pytest.mark.parametrize("cloud", ["noauth", "keystone"], indirect=True, scope="module"),
    # openstacksdk warns of deprecated functions that it uses itself.
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
]
BACKENDS = {"one": {"filesystem_size_limit_gb": 20}, "two": {"filesystem_size_limit_gb": 20}}
VERSION = "3.71"


@pytest.fixture(scope="module")
def cloud(request: pytest.FixtureRequest, deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    home = tmp_path_factory.mktemp("home")
    keystone: Keystone | None = None
    if request.param == "keystone":
        keystone = request.getfixturevalue("keystone_server")
    with contextlib.ExitStack() as stack:
        credentials, account = (None, None) if keystone is None else _create_administrator(keystone)
        tonnage: Deployment = stack.enter_context(deploy(BACKENDS, credentials=credentials)).start()
        if keystone is not None:
            keystone.make_endpoint(f"{tonnage.rest.url}/v3")
        connection = _connect(tonnage, account)
        stack.callback(connection.close)
        yield Cloud(
            clients=stack.enter_context(Clients(tonnage.rest.url, home, account)),
            storage=connection.block_storage,
            project="demo" if credentials is None else credentials.project_id,
            pool=tonnage.pool("one"),
            other_pool=tonnage.pool("two"),
            has_identity=keystone is not None or not tonnage.distributed,
        )


def _create_administrator(keystone: Keystone) -> tuple[Credentials, Account]:
    """Create an administrator with a new project."""
    name = f"a-{uuid.uuid4().hex[:12]}"
    project_id = keystone.make_project(name)
    keystone.make_user(name, project_id, "admin")
    token = keystone.login(name, {"project": {"id": project_id}})
    return Credentials(keystone.options, token, project_id), Account(keystone.url, name, PASSWORD, name)


def _connect(tonnage: Deployment, account: Account | None) -> openstack.connection.Connection:
    settings = {"load_yaml_config": False, "load_envvars": False, "block_storage_default_microversion": VERSION}
    if account is None:
        return openstack.connect(auth_type="none", endpoint=f"{tonnage.rest.url}/v3", region_name="here", **settings)
    return openstack.connect(
        auth_url=account.auth_url,
        username=account.username,
        password=account.password,
        project_name=account.project_name,
        user_domain_name="Default",
        project_domain_name="Default",
        region_name=REGION,
        **settings,
    )


@pytest.mark.parametrize("command", commands.ALL, ids=lambda command: command.__name__)
def test_a_documented_command_works(cloud: Cloud, command: Callable[[Cloud], None]) -> None:
    command(cloud)
