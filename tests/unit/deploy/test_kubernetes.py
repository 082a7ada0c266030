# SPDX-License-Identifier: Apache-2.0
"""The manifests of ``deploy/kubernetes``: valid, in agreement with each other and with the options of the processes."""

import contextlib
import os
import pathlib
import ssl
import subprocess
from typing import Any

import kubernetes_validate
import pytest
from oslo_config import cfg

from tests.kubernetes import manifests
from tests.kubernetes.manifests import FOLDER
from tonnage.api import options as api_options
from tonnage.cli import unknown_options
from tonnage.extensions.kubernetes import options as kubernetes_options
from tonnage.extensions.kubernetes.admission import admission_server
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options

FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.yaml"))
OBJECTS = [(name, each) for name in FILES for each in manifests.load(name)]
PODS = [each for _, each in OBJECTS if each["kind"] in ("Deployment", "Job")]

#: Kinds of objects that are in no namespace.
CLUSTER_KINDS = ("Namespace", "ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration")

#: The host name of the extender within the cluster.
HOST = "tonnage-extender.tonnage.svc"


def of_kind(kind: str) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for _, each in OBJECTS if each["kind"] == kind}


def pod_spec(each: dict[str, Any]) -> Any:
    return each["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> cfg.ConfigOpts:
    """The configuration of the processes, from the ConfigMap and the Secret in one folder."""
    folder = tmp_path_factory.mktemp("tonnage")
    data = [*of_kind("ConfigMap")["tonnage"]["data"].items(), *of_kind("Secret")["tonnage"]["stringData"].items()]
    for name, text in data:
        (folder / name).write_text(text, encoding="utf-8")
    conf = cfg.ConfigOpts()
    for register in (
        rpc_options.register,
        api_options.register,
        kubernetes_options.register,
        database_options.register,
    ):
        register(conf)
    conf(["--config-dir", str(folder)], project="tonnage", default_config_files=[])
    return conf


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_in_a_kustomization(name: str) -> None:
    path = FOLDER / name
    [kustomization] = manifests.load(str((path.parent / "kustomization.yaml").relative_to(FOLDER)))
    assert path.name in ("kustomization.yaml", *kustomization["resources"])
    assert all((path.parent / each).is_file() for each in kustomization["resources"])


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(each, id=f"{name}-{each['kind']}-{each['metadata']['name']}")
        for name, each in OBJECTS
        if each["apiVersion"].partition("/")[0] not in ("cert-manager.io", "kustomize.config.k8s.io")
    ],
)
def test_objects_match_the_schema_of_kubernetes(each: dict[str, Any]) -> None:
    kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    assert each["kind"] in CLUSTER_KINDS or "namespace" in each["metadata"]


@pytest.mark.parametrize("each", PODS, ids=lambda each: each["metadata"]["name"])
def test_pods_are_restricted(each: dict[str, Any]) -> None:
    spec = pod_spec(each)
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in spec["volumes"]}
    # kube-scheduler asks the extender about the pods of its own profiles alone.
    assert spec.get("schedulerName", "default-scheduler") == "default-scheduler"


def test_the_options_are_known_and_usable(conf: cfg.ConfigOpts) -> None:
    assert unknown_options.find(conf) == []
    options = conf.kubernetes
    assert (options.extender, options.extender_reserves) == (True, True)
    assert conf.osapi_volume_listen == "127.0.0.1"
    assert conf.auth_strategy == "noauth"
    assert conf.database.connection.startswith("postgresql+psycopg://")
    assert (
        options.publisher_namespace
        == manifests.find("roles.yaml", "Role", "tonnage-publisher")["metadata"]["namespace"]
    )


def test_the_extender_is_where_kube_scheduler_and_kubelet_look(conf: cfg.ConfigOpts) -> None:
    deployment, service = of_kind("Deployment")["tonnage-extender"], of_kind("Service")["tonnage-extender"]
    [container] = pod_spec(deployment)["containers"]
    [port], [service_port] = container["ports"], service["spec"]["ports"]
    assert port["containerPort"] == service_port["port"] == conf.kubernetes.extender_listen_port
    assert service_port["targetPort"] == port["name"]
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["spec"]["replicas"] == 2
    assert [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")] == [
        {"path": path, "port": port["name"], "scheme": "HTTPS"} for path in ("/healthz", "/healthz", "/readyz")
    ]
    [word, pause] = container["lifecycle"]["preStop"]["exec"]["command"]
    assert word == "sleep"
    assert pod_spec(deployment)["terminationGracePeriodSeconds"] > int(pause) + conf.osapi_volume_stop_timeout
    [extender] = manifests.scheduler_configuration()["extenders"]
    assert extender["urlPrefix"] == f"https://{HOST}:{conf.kubernetes.extender_listen_port}/k8s"
    assert extender["tlsConfig"]["serverName"] == HOST
    assert [extender[f"{verb}Verb"] for verb in ("filter", "prioritize", "preempt")] == [
        "filter",
        "prioritize",
        "preempt",
    ]


def test_the_admission_is_where_the_api_server_looks(conf: cfg.ConfigOpts) -> None:
    deployment, service = of_kind("Deployment")["tonnage-extender"], of_kind("Service")["tonnage-admission"]
    [webhook] = of_kind("ValidatingWebhookConfiguration")["tonnage-admission"]["webhooks"]
    [port] = service["spec"]["ports"]
    assert port["targetPort"] == conf.kubernetes.admission_listen_port
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert webhook["clientConfig"]["service"] == {
        "name": "tonnage-admission",
        "namespace": "tonnage",
        "path": admission_server.PATH,
        "port": port["port"],
    }
    # Nothing of Tonnage may keep a cluster from making volumes, unless somebody wants that.
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "NoneOnDryRun")
    [term] = webhook["namespaceSelector"]["matchExpressions"]
    assert term == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": [service["metadata"]["namespace"]],
    }


def test_probes_of_the_publisher_read_its_state_file(conf: cfg.ConfigOpts, tmp_path: pathlib.Path) -> None:
    spec = pod_spec(of_kind("Deployment")["tonnage-publisher"])
    [container], path = spec["containers"], conf.kubernetes.publisher_state_file
    assert str(pathlib.Path(path).parent) in {each["mountPath"] for each in container["volumeMounts"]}
    state = tmp_path / "state"

    def succeeds(probe: str) -> bool:
        command = [word.replace(path, str(state)) for word in container[probe]["exec"]["command"]]
        assert command != container[probe]["exec"]["command"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    assert (succeeds("livenessProbe"), succeeds("readinessProbe")) == (False, False)
    state.write_text("ok\n", encoding="utf-8")
    assert (succeeds("livenessProbe"), succeeds("readinessProbe")) == (True, True)
    state.write_text("Figures are not exchanged: it is not ok\n", encoding="utf-8")
    assert (succeeds("livenessProbe"), succeeds("readinessProbe")) == (True, False)
    state.write_text("ok\n", encoding="utf-8")
    os.utime(state, (0, 0))
    assert not succeeds("livenessProbe")


@pytest.mark.parametrize(
    "each", [each for each in PODS if each["kind"] == "Deployment"], ids=lambda each: each["metadata"]["name"]
)
def test_replicas_are_on_different_nodes(each: dict[str, Any]) -> None:
    name, labels = each["metadata"]["name"], each["spec"]["template"]["metadata"]["labels"]
    assert each["spec"]["replicas"] == 2
    [constraint] = pod_spec(each)["topologySpreadConstraints"]
    assert (constraint["topologyKey"], constraint["labelSelector"]["matchLabels"]) == ("kubernetes.io/hostname", labels)
    # While no publisher runs the published figures stay as they are.
    budget = of_kind("PodDisruptionBudget").get(name)
    assert (budget is None) == (name == manifests.PUBLISHER)
    if budget is not None:
        assert (budget["spec"]["minAvailable"], budget["spec"]["selector"]["matchLabels"]) == (1, labels)


def test_the_configuration_of_kube_scheduler_is_complete() -> None:
    configuration = manifests.scheduler_configuration()
    [extender] = configuration["extenders"]
    assert extender.keys() == {
        "urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "weight", "nodeCacheCapable", "httpTimeout",
        "ignorable", "enableHTTPS", "tlsConfig",
    }  # fmt: skip
    assert (extender["nodeCacheCapable"], extender["ignorable"], extender["enableHTTPS"]) == (True, False, True)
    [profile] = configuration["profiles"]
    [deployment] = [each for each in PODS if each["metadata"]["name"] == "tonnage-kube-scheduler"]
    assert pod_spec(deployment)["schedulerName"] != profile["schedulerName"]
    lease = configuration["leaderElection"]
    [_, rule] = manifests.find("second-scheduler/scheduler.yaml", "Role", "tonnage-kube-scheduler")["rules"]
    assert (lease["resourceNamespace"], [lease["resourceName"]]) == ("tonnage", rule["resourceNames"])


def test_files_of_certificates_are_those_that_are_mounted(conf: cfg.ConfigOpts) -> None:
    certificates = of_kind("Certificate")
    [extender] = manifests.scheduler_configuration()["extenders"]
    tls = extender["tlsConfig"]
    for name, files in {
        "tonnage-extender": [conf.kubernetes[f"extender_{each}_file"] for each in ("cert", "key", "ca")],
        "tonnage-kube-scheduler": [tls[f"{each}File"] for each in ("cert", "key", "ca")],
    }.items():
        spec = pod_spec(of_kind("Deployment")[name])
        [volume] = [each for each in spec["volumes"] if each["name"] == "certificates"]
        assert volume["secret"]["secretName"] == certificates[name]["spec"]["secretName"]
        [mount] = [each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "certificates"]
        assert files == [f"{mount['mountPath']}/{each}" for each in ("tls.crt", "tls.key", "ca.crt")]
    assert certificates["tonnage-extender"]["spec"]["dnsNames"] == [HOST, "tonnage-admission.tonnage.svc"]
    issuers = {each["spec"]["issuerRef"]["name"] for name, each in certificates.items() if name != "tonnage-ca"}
    assert issuers == {"tonnage-ca"}
    assert (
        of_kind("Issuer")["tonnage-ca"]["spec"]["ca"]["secretName"] == certificates["tonnage-ca"]["spec"]["secretName"]
    )


def test_the_namespace_admits_critical_pods() -> None:
    """Some managed clusters refuse them in a namespace without a quota for their class."""
    [quota] = of_kind("ResourceQuota").values()
    [scope] = quota["spec"]["scopeSelector"]["matchExpressions"]
    classes = {pod_spec(each)["priorityClassName"] for each in PODS if "priorityClassName" in pod_spec(each)}
    assert (scope["scopeName"], scope["operator"], set(scope["values"])) == ("PriorityClass", "In", classes)


def test_bindings_have_roles_and_accounts() -> None:
    accounts = of_kind("ServiceAccount")
    for account in (manifests.EXTENDER, manifests.PUBLISHER):
        assert [role["metadata"]["name"] for _, role in manifests.granted(account)]
    for each in PODS:
        account = pod_spec(each).get("serviceAccountName")
        assert account in accounts if pod_spec(each)["automountServiceAccountToken"] else account is None


def test_certificates_by_openssl_work(tmp_path: pathlib.Path) -> None:
    script, folder = FOLDER / "certificates" / "with-openssl.sh", tmp_path / "certificates"
    subprocess.run([script, folder], check=True, capture_output=True)
    assert subprocess.run([script, folder], check=False, capture_output=True).returncode != 0, "it replaces nothing"
    files = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert {name for name in files if "/" in name} == {
        f"{of}/{name}" for of in ("extender", "kube-scheduler") for name in ("ca.crt", "tls.crt", "tls.key")
    }
    assert set(files.values()) == {0o600}
    contexts = {}
    for name, purpose in (("extender", ssl.Purpose.CLIENT_AUTH), ("kube-scheduler", ssl.Purpose.SERVER_AUTH)):
        contexts[name] = context = ssl.create_default_context(purpose, cafile=f"{folder}/{name}/ca.crt")
        context.load_cert_chain(f"{folder}/{name}/tls.crt", f"{folder}/{name}/tls.key")
    contexts["extender"].verify_mode = ssl.CERT_REQUIRED
    assert shake_hands(contexts["extender"], contexts["kube-scheduler"], HOST)["subject"] == (
        (("commonName", "kube-scheduler"),),
    )
    [webhook] = of_kind("ValidatingWebhookConfiguration")["tonnage-admission"]["webhooks"]
    service = webhook["clientConfig"]["service"]
    assert shake_hands(
        contexts["extender"], contexts["kube-scheduler"], f"{service['name']}.{service['namespace']}.svc"
    )
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(contexts["extender"], contexts["kube-scheduler"], "elsewhere.tonnage.svc")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> Any:
    """Connect a client to a server in memory, and return the certificate of the client."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(there, back, server_side=True)
    asking = client.wrap_bio(back, there, server_hostname=host)
    for side in (asking, serving, asking, serving):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return serving.getpeercert()
