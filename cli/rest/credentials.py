# SPDX-License-Identifier: Apache-2.0
"""Credentials for a REST API, from the environment variables of OpenStack's clients or from clouds.yaml.

Secrets come from there or from a prompt at the terminal, because all users of the machine can read command lines.
"""

import getpass
import os
import sys
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1.session import Session

from tonnage import installation
from tonnage.capacity import errors
from tonnage.cli import output


def headers(challenge: str, cloud: str | None) -> dict[str, str]:
    """Return the request headers with credentials.

    ``challenge`` is the header ``WWW-Authenticate`` of a response with status 401. ``cloud`` is an entry of
    clouds.yaml; without one the ``OS_`` variables count, as for the command ``openstack``.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for missing or unusable settings, and
    :class:`~tonnage.capacity.errors.Unavailable` if the Identity service does not answer.
    """
    try:
        session = _of_environment(challenge) if cloud is None else _of_cloud(cloud)
        return dict(session.get_auth_headers() or {})
    except exceptions.ConnectionError as error:
        raise errors.Unavailable(f"the Identity service does not answer: {output.one_line(error)}") from None
    except (exceptions.ClientException, OSError) as error:
        where = "OS_ variables" if cloud is None else f"cloud {cloud}"
        raise errors.ConfigurationError(
            f"the {where} cannot be used for authentication: {output.one_line(error)}"
        ) from None


def _of_environment(challenge: str) -> Session:
    basic = challenge.lower().startswith("basic")
    auth_type = os.environ.get("OS_AUTH_TYPE")
    if auth_type is None and os.environ.get("OS_TOKEN") and not basic:
        auth_type = "admin_token"  # sends an existing token of any user
    if auth_type is None and not os.environ.get("OS_USERNAME" if basic else "OS_AUTH_URL"):
        usual = "OS_USERNAME" if basic else "OS_AUTH_URL, OS_USERNAME, OS_PROJECT_NAME"
        raise errors.ConfigurationError(
            "the REST API needs authentication: set OS_CLOUD, or the variables that the command openstack reads, "
            f"{usual} and OS_PASSWORD"
        )
    loader: Any = loading.get_plugin_loader(auth_type or ("http_basic" if basic else "password"))
    return loading.session.Session().load_from_options(
        auth=loader.load_from_options_getter(_value),
        cacert=os.environ.get("OS_CACERT"),
        cert=os.environ.get("OS_CERT"),
        key=os.environ.get("OS_KEY"),
    )


def _value(option: loading.Opt) -> Any:
    """Return the value of an option from the environment or, for a secret, from a prompt at the terminal."""
    value = option.argparse_default
    if value is None and option.prompt and sys.stdin is not None and sys.stdin.isatty():
        value = getpass.getpass(option.prompt)
    return value


def _of_cloud(name: str) -> Session:
    try:
        from openstack import config
        from openstack.exceptions import SDKException
    except ImportError:
        raise errors.ConfigurationError(
            f"cloud {name} cannot be looked up without openstacksdk: set OS_AUTH_URL and the other variables that the "
            f"command openstack takes, or install it with: {installation.install_command('clouds')}"
        ) from None
    try:
        session: Session = config.OpenStackConfig().get_one(cloud=name).get_session()
    except SDKException as error:
        raise errors.ConfigurationError(output.one_line(error)) from None
    return session
