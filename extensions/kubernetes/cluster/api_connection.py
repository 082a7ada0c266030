# SPDX-License-Identifier: Apache-2.0
"""The connection to a cluster's API server."""

from kubernetes import client, config

from tonnage.capacity import errors


def connect(kubeconfig: str | None) -> client.ApiClient:
    """Return a client of the API server in a kubeconfig file, or of the cluster that this pod runs in.

    Nothing is sent yet. Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable configuration.
    """
    settings = client.Configuration()
    try:
        if kubeconfig:
            config.load_kube_config(config_file=kubeconfig, client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        where = f"kubeconfig = {kubeconfig}" if kubeconfig else "kubeconfig is not set, and this is no pod"
        raise errors.ConfigurationError(f"option [kubernetes] {where}: {error}") from error
    # The callers retry by themselves.
    settings.retries = False
    return client.ApiClient(settings)
