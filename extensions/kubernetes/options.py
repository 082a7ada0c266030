# SPDX-License-Identifier: Apache-2.0
"""Options of the kube-scheduler extender and of the publisher."""

from oslo_config import cfg

from tonnage.capacity import number_bounds

GROUP = "kubernetes"

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "extender",
        default=False,
        help="Serve an extender of kube-scheduler: /k8s/filter, /k8s/prioritize and /k8s/preempt, on an address of its "
        "own.",
    ),
    cfg.HostAddressOpt("extender_listen", default="127.0.0.1", help="Address that the extender listens on."),
    cfg.PortOpt("extender_listen_port", default=8779, help="Port that the extender listens on."),
    cfg.StrOpt(
        "extender_cert_file",
        help="Certificate of the extender, PEM. With it, its key and extender_ca_file the extender speaks TLS, and "
        "only with clients whose certificate that authority has signed; without them it listens on loopback alone.",
    ),
    cfg.StrOpt("extender_key_file", help="Key of that certificate, PEM."),
    cfg.StrOpt("extender_ca_file", help="Certificate of the authority that has signed those of the clients, PEM."),
    cfg.IntOpt(
        "extender_max_request_body_size",
        default=64 * 2**20,
        min=1024,
        help="Largest body that is read, in bytes. Unless kube-scheduler's nodeCacheCapable is true it sends whole "
        "nodes, some 10 KiB each.",
    ),
    cfg.BoolOpt(
        "extender_reserves",
        default=False,
        help="Return one node only, and claim the capacity for the pod's volumes there, so that pods that are "
        "scheduled in the same second do not get the same space.",
    ),
    cfg.FloatOpt(
        "extender_lease",
        default=120.0,
        min=5.0,  # renewal runs about once a second
        max=3600.0,
        help="Seconds for which capacity is claimed for a pod that is not scheduled, and after its volumes have been "
        "provisioned. Set it longer than the time until new figures are reported.",
    ),
    cfg.StrOpt(
        "extender_wake_claim",
        help="A persistent volume claim, namespace/name, that no pod uses. With extender_reserves the extender changes "
        "an annotation of it when room comes, so that kube-scheduler tries waiting pods again. Unset, they wait until "
        "kube-scheduler tries them by itself.",
    ),
    cfg.StrOpt(
        "extender_scoring_shape",
        default="spread",
        help="Scores of nodes by the utilization, in percent, of the fullest pool that a pod's volumes would use on "
        "them: spread prefers low utilization (0:10, 100:0), pack high utilization (0:0, 100:10). Or a list of points "
        "utilization:score with scores from 0 to 10, as in KEP-4049. It also chooses the node with extender_reserves.",
    ),
    cfg.StrOpt(
        "kubeconfig",
        help="Kubeconfig file of the API server from which claims, storage classes and labels of nodes are read. "
        "Unset, it is the cluster that this process runs in.",
    ),
    cfg.BoolOpt(
        "admission",
        default=False,
        help="Serve an admission webhook, /k8s/admit: when a kube-scheduler that does not ask the extender has chosen "
        "a node, claim the capacity for the volumes of the pod there, or refuse the node before a volume is made. It "
        "needs extender_reserves, and uses the certificate of the extender.",
    ),
    cfg.HostAddressOpt("admission_listen", default="127.0.0.1", help="Address that the admission webhook listens on."),
    cfg.PortOpt("admission_listen_port", default=8780, help="Port that the admission webhook listens on."),
    cfg.BoolOpt(
        "read_capacity_objects",
        default=False,
        help="Take over the CSIStorageCapacity objects that provisioners publish, of all namespaces, as pools of their "
        "drivers. The extender does this. The objects of tonnage-publisher are left out.",
    ),
    cfg.ListOpt(
        "capacity_object_drivers",
        default=[],
        help="Drivers whose CSIStorageCapacity objects are taken over, by the provisioner of their storage classes. "
        "Empty: all drivers.",
    ),
    cfg.DictOpt(
        "capacity_object_disks",
        default={},
        help="Names for the disks of storage classes, such as fast:ssd, safe:ssd. Classes of a driver with the same "
        "name share their disks on the same nodes. Classes without a name share them if all their parameters are the "
        "same, except the file system and those of Kubernetes (csi.storage.k8s.io/...).",
    ),
    cfg.FloatOpt(
        "capacity_object_lifetime",
        default=180.0,
        min=30.0,
        max=3600.0,
        help="Seconds for which figures from CSIStorageCapacity objects are used after the last sign that their "
        "provisioner works: pods of the objects' owner are ready, and its lease, if it has one, is renewed.",
    ),
    cfg.BoolOpt(
        "refresh_capacity_objects",
        default=True,
        help="With read_capacity_objects and extender_reserves: if the figure in a CSIStorageCapacity object stays as "
        "it is after a volume has been made, lower it by one byte, so that its provisioner asks for it again and the "
        "claim for the volume ends. Otherwise this claim lasts until the object has been written twice, which may be "
        "never.",
    ),
    cfg.StrOpt(
        "publisher_namespace",
        help="Namespace that tonnage-publisher writes CSIStorageCapacity objects to. Unset, it writes none.",
    ),
    cfg.BoolOpt(
        "publisher_subtracts_claims",
        default=False,
        help="Publish the capacity less the claims for pods, within a second of a claim, so that a kube-scheduler "
        "without the extender does not use claimed capacity. The claim of a pod that kube-scheduler has to try again "
        "is left out meanwhile.",
    ),
    cfg.StrOpt(
        "publisher_owner",
        help="Deployment in publisher_namespace that owns the objects: the cluster deletes them with it. Unset, the "
        "objects have no owner, and stay until somebody deletes them.",
    ),
    cfg.MultiStrOpt(
        "template_node_capacity",
        default=[],
        help="Capacity of an empty node of a node group, for cluster-autoscaler: storage class, size and, with several "
        "groups, labels of the nodes of the group, as in fast 100Gi pool=a. It is published for simulated nodes.",
    ),
    cfg.FloatOpt(
        "publisher_interval",
        default=10.0,
        min=0.1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds between two rounds of tonnage-publisher.",
    ),
    cfg.FloatOpt(
        "publisher_lifetime",
        default=180.0,
        min=1.0,
        help="Seconds after an agent's last report for which its figures are used for clusters. Set it longer than "
        "the agents' backend_stats_polling_interval.",
    ),
    cfg.DictOpt(
        "volume_type_classes",
        default={},
        help="Storage classes of a driver that makes volumes of Tonnage or of a Cinder that Tonnage watches, each with "
        "its volume type: csi-cinder-fast:fast. A type that the ledger does not have is named by its extra specs, with "
        "semicolons between them: csi-ceph:volume_backend_name=ceph. tonnage-publisher takes over the capacity of the "
        "pools.",
    ),
    cfg.StrOpt(
        "volume_type_driver",
        default="cinder.csi.openstack.org",
        help="The driver of these storage classes.",
    ),
    cfg.StrOpt(
        "volume_type_zone_label",
        default="topology.cinder.csi.openstack.org/zone",
        help="The label of nodes whose value is the availability zone that they reach. Empty: all nodes reach all "
        "zones.",
    ),
    cfg.StrOpt(
        "publisher_state_file",
        help="File that tonnage-publisher writes at its start and after each round, for probes: ok after a round "
        "without an error, otherwise the reason. Unset, it writes none.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_group(cfg.OptGroup(GROUP, title="Kubernetes"))
    conf.register_opts(OPTIONS, GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [(GROUP, OPTIONS)]
