# SPDX-License-Identifier: Apache-2.0
"""The chart in ``deploy``, rendered by Helm."""

import base64
import itertools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import bcrypt
import kubernetes_validate
import pytest
import yaml

from tests import suites
from tests.kubernetes import images, manifests
from tonnage.api.monitoring.web_config import WebConfig

pytestmark = pytest.mark.kubernetes

HELM = images.KUBERNETES.with_name("helm")
_CHART = manifests.FOLDER.parent
_RENDER = pathlib.Path(__file__).with_name("render_chart.py")

#: The oldest version of Kubernetes that the chart names, and the newest one.
_VERSIONS = ("1.25", kubernetes_validate.latest_version())

#: A kind and a name.
Key = tuple[str, str]


def run(
    values: dict[str, Any], namespace: str = manifests.NAMESPACE, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    if not HELM.exists():
        suites.cannot_run("Kubernetes", f"{HELM} is not there; run tools/install-kubernetes.sh")
    return subprocess.run(
        [sys.executable, _RENDER, _CHART, namespace, *arguments],
        input=json.dumps(values),
        env={**os.environ, "PYTHONPATH": str(HELM)},
        capture_output=True,
        text=True,
        check=False,
    )


def render(**values: Any) -> dict[Key, dict[str, Any]]:
    done = run(values)
    assert done.returncode == 0, done.stdout + done.stderr
    objects = by_name([each for each in yaml.safe_load_all(done.stdout) if each])
    for each in objects.values():
        if not each["apiVersion"].startswith(("cert-manager.io/", "monitoring.coreos.com/")):
            for version in _VERSIONS:
                kubernetes_validate.validate(_known_in(version, each), version, strict=True)
    return objects


def _known_in(version: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the field that the chart leaves out for clusters of this version."""
    if body["kind"] != "ValidatingWebhookConfiguration" or version != _VERSIONS[0]:
        return body
    webhooks = [{key: value for key, value in each.items() if key != "matchConditions"} for each in body["webhooks"]]
    return {**body, "webhooks": webhooks}


def by_name(objects: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found


#: The values without the objects that only the chart has.
PLAIN: dict[str, Any] = {"metrics": {"enabled": False}, "networkPolicy": {"enabled": False}}


def pod_specs(objects: dict[Key, dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """Return the pods of all Deployments, Jobs and DaemonSets."""
    kinds = ("Deployment", "Job", "DaemonSet")
    return {key: body["spec"]["template"]["spec"] for key, body in objects.items() if key[0] in kinds}


def test_the_objects_are_those_of_the_manifests() -> None:
    expected = by_name([*manifests.kustomization(), *manifests.kustomization("second-scheduler")])
    # Helm makes the namespace. A Job cannot be changed, so each revision has its own.
    del expected["Namespace", "tonnage"]
    job = expected.pop(("Job", "tonnage-schema"))
    expected["Job", "tonnage-schema-1"] = {**job, "metadata": {**job["metadata"], "name": "tonnage-schema-1"}}
    rendered = render(**PLAIN)
    for (kind, _), each in rendered.items():
        if kind == "Deployment":
            assert each["spec"]["template"]["metadata"].pop("annotations").keys() == {"checksum/configuration"}
    assert rendered == expected


def test_values_change_the_objects() -> None:
    plain = render(**PLAIN)
    changed = render(
        **PLAIN,
        image="registry.example.com/storage/tonnage:2",
        configuration={"values.conf": "[kubernetes]\nextender_scoring_shape = pack\n"},
        secret={"create": False},
        certManager=True,
        deployments={
            "tonnage-extender": {
                "replicas": 3,
                "pod": {"nodeSelector": {"disks": "none"}},
                "container": {"resources": {"requests": {"cpu": "1"}}},
            }
        },
        secondScheduler={"enabled": False},
    )
    scheduler = by_name(manifests.kustomization("second-scheduler"))
    certificates = by_name(manifests.kustomization("certificates"))
    assert changed.keys() == plain.keys() - scheduler.keys() - {("Secret", "tonnage")} | certificates.keys()
    assert changed["ConfigMap", "tonnage"]["data"].keys() == {"tonnage.conf", "values.conf"}
    before, after = plain["Deployment", "tonnage-extender"], changed["Deployment", "tonnage-extender"]
    assert after["spec"]["replicas"] == 3
    template = after["spec"]["template"]
    # A change of the configuration replaces the pods.
    assert template["metadata"]["annotations"] != before["spec"]["template"]["metadata"]["annotations"]
    assert template["spec"].pop("nodeSelector") == {"disks": "none"}
    [container], [old_container] = template["spec"]["containers"], before["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/storage/tonnage:2"
    requests = {**old_container["resources"]["requests"], "cpu": "1"}
    old_container |= {"image": container["image"], "resources": {**old_container["resources"], "requests": requests}}
    assert template["spec"] == before["spec"]["template"]["spec"]


def test_a_secret_and_another_scheduler_are_set() -> None:
    image = "registry.example.com/kube-scheduler:v1.33.1"
    rendered = render(secret={"text": "[database]\n"}, secondScheduler={"image": image})
    assert rendered["Secret", "tonnage"]["stringData"] == {"secret.conf": "[database]\n"}
    [container] = rendered["Deployment", "tonnage-kube-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


def test_pods_of_the_second_scheduler_may_go_sooner() -> None:
    key = ("ConfigMap", "tonnage-kube-scheduler")
    before, after = (
        yaml.safe_load(render(**PLAIN, **values)[key]["data"]["configuration.yaml"])
        for values in ({}, {"secondScheduler": {"podMaxBackoffSeconds": 1}})
    )
    assert after == {**before, "podMaxBackoffSeconds": 1}
    assert "podMaxBackoffSeconds" not in before


def test_another_namespace_is_refused() -> None:
    done = run({}, "elsewhere")
    assert done.returncode == 1
    assert "use --namespace tonnage" in done.stdout


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"deployments": {"tonnage-extendr": {"replicas": 5}}}, "'tonnage-extendr' not allowed"),
        ({"deployments": {"tonnage-extender": {"replica": 5}}}, "'replica' not allowed"),
        ({"extender": {"reserve": False}}, "'reserve' not allowed"),
        ({"metric": {"enabled": True}}, "'metric' not allowed"),
        ({"secondScheduler": {"podMaxBackoffSeconds": 0}}, "at '/secondScheduler/podMaxBackoffSeconds'"),
        ({"publisher": {"templateNodeCapacity": ["fast"]}}, "at '/publisher/templateNodeCapacity/0'"),
        ({"scheduler": {"replicas": "two"}}, "at '/scheduler/replicas'"),
        ({"configuration": {"values.ini": ""}}, "'values.ini' does not match pattern"),
        ({"agents": {"local": {}}}, "missing property 'configuration'"),
        ({"agents": {"local": {"configuration": "x"}}}, "agents report to the scheduler of Tonnage"),
        ({"admission": {"failurePolicy": "Retry"}}, "at '/admission/failurePolicy'"),
        ({"admission": {"excludedNamespaces": ["A b"]}}, "at '/admission/excludedNamespaces/0'"),
        ({"admission": {"sources": "10.0.0.2"}}, "at '/admission/sources'"),
        ({"admission": {"enabled": True}}, "the API server has to trust the admission"),
        (
            {"admission": {"enabled": True, "caBundle": "eA=="}, "extender": {"reserves": False}},
            "the admission claims capacity",
        ),
    ],
)
def test_a_misspelt_or_wrong_value_is_refused(values: dict[str, Any], message: str) -> None:
    done = run(values)
    assert done.returncode == 1
    assert message in done.stdout


def test_fields_of_pods_are_those_of_all_pods() -> None:
    fields = {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "storage", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    agents = {"local": {"configuration": "[DEFAULT]\n", "pod": {"nodeSelector": {"disks": "local"}}}}
    specs = pod_specs(render(pods=fields, scheduler={"enabled": True}, agents=agents))
    assert {name for _, name in specs} == {
        "tonnage-extender",
        "tonnage-publisher",
        "tonnage-kube-scheduler",
        "tonnage-schema-1",
        "tonnage-scheduler",
        "tonnage-agent-local",
    }
    for (_, name), spec in specs.items():
        own = {"disks": "local"} if name == "tonnage-agent-local" else {}
        expected = {**fields, "nodeSelector": {"pool": "system", **own}}
        assert {key: spec.get(key) for key in fields} == expected
    schema = render(schema={"pod": {"priorityClassName": "low"}})["Job", "tonnage-schema-1"]
    assert schema["spec"]["template"]["spec"]["priorityClassName"] == "low"


@pytest.mark.parametrize(
    ("values", "gone", "option"),
    [
        (
            {"extender": {"reserves": False}},
            {"tonnage-extender-refresh", "tonnage-extender-reserves", "tonnage-extender-wake", "tonnage-wake"},
            "extender_reserves = false",
        ),
        (
            {"extender": {"readCapacityObjects": False}},
            {"tonnage-extender-capacity", "tonnage-extender-refresh"},
            "read_capacity_objects = false",
        ),
        (
            {"extender": {"refreshCapacityObjects": False}},
            {"tonnage-extender-refresh"},
            "refresh_capacity_objects = false",
        ),
        ({"publisher": {"enabled": False}}, {"tonnage-publisher"}, None),
    ],
)
def test_rights_are_only_for_what_is_on(values: dict[str, Any], gone: set[str], option: str | None) -> None:
    before, after = render(**PLAIN), render(**PLAIN, **values)
    assert before.keys() - after.keys() == {key for key in before if key[1] in gone}
    assert {"ClusterRole", "ClusterRoleBinding"} <= {kind for kind, name in before if name in gone}
    data = after["ConfigMap", "tonnage"]["data"]
    assert (option is None) or option in data["tonnage.values.conf"]
    # The later file wins.
    assert sorted(data)[0] == "tonnage.conf"


@pytest.mark.parametrize("cert_manager", [False, True])
def test_the_admission_is_there_when_it_is_on(cert_manager: bool) -> None:
    trust = {} if cert_manager else {"caBundle": "eA=="}
    before = render(certManager=cert_manager)
    after = render(certManager=cert_manager, admission={"enabled": True, "failurePolicy": "Fail", **trust})
    assert after.keys() - before.keys() == {
        ("Service", "tonnage-admission"),
        ("ValidatingWebhookConfiguration", "tonnage-admission"),
    }
    configuration = after["ValidatingWebhookConfiguration", "tonnage-admission"]
    [webhook] = configuration["webhooks"]
    assert webhook["failurePolicy"] == "Fail"
    assert webhook["clientConfig"].get("caBundle") == trust.get("caBundle")
    assert ("annotations" in configuration["metadata"]) is cert_manager
    text = after["ConfigMap", "tonnage"]["data"]["tonnage.values.conf"]
    assert "admission = true\nadmission_listen = 0.0.0.0\n" in text
    ports = [rule["ports"][0]["port"] for rule in after["NetworkPolicy", "tonnage-extender"]["spec"]["ingress"]]
    [service_port] = after["Service", "tonnage-admission"]["spec"]["ports"]
    assert service_port["targetPort"] in ports
    [container] = after["Deployment", "tonnage-extender"]["spec"]["template"]["spec"]["containers"]
    assert service_port["targetPort"] not in [port["containerPort"] for port in container["ports"]]


@pytest.mark.parametrize("excluded", [[], ["databases", manifests.NAMESPACE]])
def test_volumes_that_tonnage_depends_on_do_not_wait_for_it(excluded: list[str]) -> None:
    values = {"enabled": True, "caBundle": "eA==", "excludedNamespaces": excluded}
    [webhook] = render(admission=values)["ValidatingWebhookConfiguration", "tonnage-admission"]["webhooks"]
    [term] = webhook["namespaceSelector"]["matchExpressions"]
    assert (term["key"], term["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert term["values"] == [manifests.NAMESPACE, *excluded[:1]]


@pytest.mark.parametrize("sources", [[], [{"ipBlock": {"cidr": "10.0.0.2/32"}}]])
def test_the_admission_is_reached_from_its_sources(sources: list[dict[str, Any]]) -> None:
    rules = {}
    for enabled in (False, True):
        objects = render(admission={"enabled": enabled, "caBundle": "eA==", "sources": sources})
        rules[enabled] = objects["NetworkPolicy", "tonnage-extender"]["spec"]["ingress"]
    [rule] = [rule for rule in rules[True] if rule not in rules[False]]
    assert rule == {"ports": [{"port": 8780, "protocol": "TCP"}], **({"from": sources} if sources else {})}


def test_metrics_have_a_user_a_service_and_a_monitor() -> None:
    objects = render(metrics={"password": "secret", "serviceMonitor": {"enabled": True, "labels": {"team": "a"}}})
    assert "[metrics]\nenabled = true\n" in objects["ConfigMap", "tonnage"]["data"]["tonnage.values.conf"]
    data = objects["Secret", "tonnage-metrics"]["stringData"]
    web = yaml.safe_load(data["metrics-web.yml"])
    assert bcrypt.checkpw(b"secret", web["basic_auth_users"]["prometheus"].encode())
    [container] = objects["Deployment", "tonnage-extender"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "metrics", "containerPort": 9777} in container["ports"]
    service = objects["Service", "tonnage-metrics"]
    monitor = objects["ServiceMonitor", "tonnage"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] == service["spec"]["ports"][0]["name"]
    assert monitor["metadata"]["labels"] == {"team": "a"}


def test_metrics_are_served_with_this_configuration(tmp_path: pathlib.Path) -> None:
    """The file is one that Tonnage accepts, with the names of a certificate that is mounted."""
    data = render()["Secret", "tonnage-metrics"]["stringData"]
    path = tmp_path / "metrics-web.yml"
    path.write_text(data["metrics-web.yml"].replace("/etc/tonnage-tls", str(tmp_path)), encoding="utf-8")
    subprocess.run([manifests.FOLDER / "certificates" / "with-openssl.sh", tmp_path / "made"], check=True)
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_bytes((tmp_path / "made" / "extender" / name).read_bytes())
    web_config = WebConfig(str(path))
    assert web_config.tls() is not None
    credentials = base64.b64encode(f"{data['username']}:{data['password']}".encode()).decode()
    assert web_config.admits(f"Basic {credentials}")
    assert not web_config.admits("Basic bm9ib2R5Om5vdGhpbmc=")


def test_the_network_reaches_the_ports_that_are_needed() -> None:
    objects = render(networkPolicy={"extenderFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]})
    everything = objects["NetworkPolicy", "tonnage"]["spec"]
    assert (everything["podSelector"], everything.get("ingress")) == ({}, None)
    policy = objects["NetworkPolicy", "tonnage-extender"]["spec"]
    labels = objects["Deployment", "tonnage-extender"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    extender, metrics = policy["ingress"]
    [container] = objects["Deployment", "tonnage-extender"]["spec"]["template"]["spec"]["containers"]
    assert {rule["ports"][0]["port"] for rule in (extender, metrics)} == {port["name"] for port in container["ports"]}
    scheduler = objects["Deployment", "tonnage-kube-scheduler"]["spec"]["template"]["metadata"]["labels"]
    assert extender["from"][0]["podSelector"]["matchLabels"].items() <= scheduler.items()
    assert extender["from"][1] == {"ipBlock": {"cidr": "192.0.2.0/24"}}
    assert "from" not in metrics


def test_agents_are_one_on_each_node() -> None:
    text = "[DEFAULT]\nenabled_backends = disks\n[disks]\nvolume_driver = csi\n"
    paths = {"/csi": "/var/lib/kubelet/plugins/disk", "/var/lib/tonnage": "/var/lib/tonnage"}
    objects = render(scheduler={"enabled": True}, agents={"local": {"configuration": text, "hostPaths": paths}})
    assert objects["ConfigMap", "tonnage-agent-local"]["data"] == {"agent.conf": text}
    spec = objects["DaemonSet", "tonnage-agent-local"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    host = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    mounted = {mount["mountPath"]: host[mount["name"]] for mount in container["volumeMounts"] if mount["name"] in host}
    assert mounted == paths
    # A node does not get the URL of the database.
    [configuration] = [volume for volume in spec["volumes"] if "projected" in volume]
    assert [source["secret"]["name"] for source in configuration["projected"]["sources"][1:]] == ["tonnage-agent"]
    secret = objects["Secret", "tonnage-agent"]["stringData"]["secret.conf"]
    assert "transport_url" in secret
    assert "connection" not in secret
    for body in objects.values():
        if body["kind"] in ("DaemonSet", "Deployment"):
            labels = body["spec"]["template"]["metadata"]["labels"]
            assert body["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_commands_are_programs_with_options_that_they_have() -> None:
    """The chart's commands, with the folders that its pods have."""
    objects = render(scheduler={"enabled": True}, agents={"local": {"configuration": "[DEFAULT]\n"}})
    for (_, name), spec in pod_specs(objects).items():
        [container] = spec["containers"]
        if name == "tonnage-kube-scheduler":
            continue
        program, *arguments = container["command"]
        folders = [value for option, value in itertools.pairwise(arguments) if option == "--config-dir"]
        assert set(folders) <= {mount["mountPath"] for mount in container["volumeMounts"]}
        rest = [value for value in arguments if value != "--config-dir" and value not in folders]
        path = pathlib.Path(sys.executable).with_name(program)
        done = subprocess.run([path, *rest, "--help"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "config-dir" in done.stdout or program == "tonnage-manage"


def test_variables_set_options_before_files(tmp_path: pathlib.Path) -> None:
    objects = render(scheduler={"enabled": True}, agents={"local": {"configuration": "[DEFAULT]\n"}})
    for name, text in objects["ConfigMap", "tonnage"]["data"].items():
        (tmp_path / name).write_text(f"{text}\n[DEFAULT]\nhost = of-file\n", encoding="utf-8")
    program = (
        "import sys; from oslo_config import cfg; from tonnage.rpc import options;"
        "conf = cfg.ConfigOpts(); options.register(conf);"
        "conf(['--config-dir', sys.argv[1]], project='tonnage', default_config_files=[]); print(conf.host)"
    )
    for key in (("Deployment", "tonnage-scheduler"), ("DaemonSet", "tonnage-agent-local")):
        [container] = objects[key]["spec"]["template"]["spec"]["containers"]
        variables = {entry["name"]: entry.get("value", "node-7") for entry in container["env"]}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, tmp_path],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "node-7\n"


@pytest.mark.parametrize(
    ("values", "present", "absent"),
    [
        ({}, ["1. The Secret", "2. The pods wait", "4. See the figures", "schedulerName: tonnage"], []),
        (
            {"secret": {"text": "x"}, "certManager": True, "secondScheduler": {"enabled": False}},
            ["3. Wait", "Let a kube-scheduler ask"],
            ["1. The Secret", "2. The pods", "schedulerName"],
        ),
        ({"extender": {"readCapacityObjects": False}}, ["5. Give pods"], ["4. See"]),
    ],
)
def test_notes_have_the_next_steps(values: dict[str, Any], present: list[str], absent: list[str]) -> None:
    notes = run(values, manifests.NAMESPACE, "notes").stdout
    assert [text for text in present if text not in notes] == []
    assert [text for text in absent if text in notes] == []


def test_values_of_the_publisher_are_options() -> None:
    publisher = {"subtractsClaims": True, "templateNodeCapacity": ["fast 100Gi pool=a", "fast 200Gi pool=b"]}
    text = render(**PLAIN, publisher=publisher)["ConfigMap", "tonnage"]["data"]["tonnage.values.conf"]
    assert text.splitlines() == [
        "[kubernetes]",
        "publisher_subtracts_claims = true",
        "template_node_capacity = fast 100Gi pool=a",
        "template_node_capacity = fast 200Gi pool=b",
    ]
