# SPDX-License-Identifier: Apache-2.0
"""The connection to the Cinder of a cloud: an entry of clouds.yaml, or the ``OS_`` variables of the environment."""

import argparse
import os
import re
from typing import TYPE_CHECKING

from tonnage import installation
from tonnage.capacity import errors
from tonnage.cli import output

if TYPE_CHECKING:
    from tonnage.extensions.relocation.cinder_client import CinderClient

#: Seconds that Cinder and Keystone have for an answer, unless clouds.yaml has ``api_timeout``.
_TIMEOUT = 120.0

#: The service type of Cinder, for which catalogs may have the older ``volumev3``.
_SERVICE = "block-storage"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``os_cloud`` to a parser."""
    parser.add_argument(
        "--os-cloud",
        metavar="NAME",
        default=os.environ.get("OS_CLOUD") or None,
        help="entry of clouds.yaml with an administrator of the cloud (default: OS_CLOUD, else the other OS_ variables "
        "that the command openstack knows)",
    )


def connect(cloud: str | None) -> "tuple[CinderClient, str, str]":
    """Return the client of Cinder, and the ids of the account's project and user.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for unusable settings, and
    :class:`~tonnage.capacity.errors.Unavailable` if Keystone does not answer.
    """
    try:
        from openstack import config
        from openstack.exceptions import SDKException
    except ImportError:
        raise errors.ConfigurationError(
            "the settings of a cloud cannot be read without openstacksdk: install it with: "
            f"{installation.install_command('clouds')}"
        ) from None
    from keystoneauth1 import exceptions

    from tonnage.extensions.relocation.cinder_client import CinderClient

    where = "OS_ variables" if cloud is None else f"cloud {cloud}"
    try:
        region = config.OpenStackConfig().get_one(cloud=cloud)
        session = region.get_session()
        if session.timeout is None:
            session.timeout = _TIMEOUT
        url = region.get_endpoint(_SERVICE) or session.get_endpoint(
            service_type=_SERVICE,
            interface=region.get_interface(_SERVICE) or "public",
            region_name=region.get_region_name() or None,
            skip_discovery=True,
        )
        project, user = session.get_project_id() or "", session.get_user_id() or ""
    except exceptions.ConnectionError as error:
        raise errors.Unavailable(f"Keystone does not answer: {output.one_line(error)}") from None
    except (SDKException, exceptions.ClientException, OSError, ValueError) as error:
        raise errors.ConfigurationError(f"the {where} cannot be used: {output.one_line(error)}") from None
    if not url:
        raise errors.ConfigurationError(f"the {where}: Keystone's catalog has no endpoint of the type {_SERVICE}")
    return CinderClient(session, _versioned(url, project)), project, user


def _versioned(url: str, project: str) -> str:
    """Return an endpoint with the version, and with the project where it is known: older releases need it."""
    url = url.rstrip("/")
    if not re.search(r"/v3(/[^/]*)?$", url):
        url = f"{url}/v3"
    return f"{url}/{project}" if url.endswith("/v3") and project else url
