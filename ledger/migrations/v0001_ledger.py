# SPDX-License-Identifier: Apache-2.0
"""The tables of the core, and the volume type of volumes that are created without one

MariaDB commits each statement, so a migration that was interrupted finds some of its tables.
"""

import datetime
import uuid

import sqlalchemy as sa
from alembic import op

from tonnage.ledger.models.base import Timestamp, Uuid, exact_text

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "backends",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", exact_text(255), nullable=False),
        sa.Column("driver", exact_text(255), nullable=False),
        sa.Column("availability_zone", exact_text(255), nullable=False),
        sa.Column("allocated_capacity_gb", sa.BigInteger(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", exact_text(255), nullable=True),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("rules_generation", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("nonce", exact_text(64), nullable=False),
        sa.Column("report_seq", sa.BigInteger(), nullable=False),
        sa.Column("report_covers", sa.BigInteger(), nullable=False),
        sa.Column("listing_epoch", sa.BigInteger(), nullable=False),
        sa.Column("listing_tick", sa.BigInteger(), nullable=False),
        sa.Column("last_report_at", Timestamp, nullable=True),
        sa.Column("report_age", sa.Double(), nullable=False),
        sa.Column("last_listing_at", Timestamp, nullable=True),
        sa.Column("notice", exact_text(16), nullable=True),
        sa.Column("notice_text", exact_text(), nullable=True),
        sa.Column("notice_at", Timestamp, nullable=True),
        sa.Column("observed", sa.Boolean(), nullable=False),
        sa.Column("last_probe", sa.BigInteger(), nullable=False),
        sa.Column("probed_at", Timestamp, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_backends"),
        sa.UniqueConstraint("name", name="uq_backends_name"),
        if_not_exists=True,
    )
    op.create_table(
        "group_types",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("name", exact_text(255), nullable=False),
        sa.Column("description", exact_text(255), nullable=True),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("specs", sa.JSON(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_group_types"),
        sa.UniqueConstraint("name", name="uq_group_types_name"),
        if_not_exists=True,
    )
    op.create_table(
        "ledger_identity",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ledger_id", Uuid, nullable=False),
        sa.Column("copied_to", exact_text(255), nullable=True),
        sa.Column("copied_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_ledger_identity"),
        if_not_exists=True,
    )
    op.create_table(
        "messages",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.Column("request_id", exact_text(64), nullable=False),
        sa.Column("resource_id", Uuid, nullable=False),
        sa.Column("resource_type", exact_text(32), nullable=False),
        sa.Column("event", exact_text(64), nullable=False),
        sa.Column("level", exact_text(16), nullable=False),
        sa.Column("text", exact_text(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
        if_not_exists=True,
    )
    op.create_index("ix_messages_project_id", "messages", ["project_id"], if_not_exists=True)
    op.create_index("ix_messages_resource_id", "messages", ["resource_id"], if_not_exists=True)
    op.create_table(
        "qos_specs",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("name", exact_text(255), nullable=False),
        sa.Column("consumer", exact_text(16), nullable=False),
        sa.Column("specs", sa.JSON(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_qos_specs"),
        sa.UniqueConstraint("name", name="uq_qos_specs_name"),
        if_not_exists=True,
    )
    op.create_table(
        "quota_limits",
        sa.Column("holder", exact_text(8), nullable=False),
        sa.Column("name", exact_text(255), nullable=False),
        sa.Column("user_id", exact_text(255), nullable=False),
        sa.Column("resource", exact_text(32), nullable=False),
        sa.Column("volume_type_id", Uuid, nullable=False),
        sa.Column("hard_limit", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("holder", "name", "user_id", "resource", "volume_type_id", name="pk_quota_limits"),
        if_not_exists=True,
    )
    op.create_index("ix_quota_limits_volume_type_id", "quota_limits", ["volume_type_id"], if_not_exists=True)
    op.create_table(
        "quota_usages",
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.Column("user_id", exact_text(255), nullable=False),
        sa.Column("volume_type_id", Uuid, nullable=False),
        sa.Column("volumes", sa.BigInteger(), nullable=False),
        sa.Column("gigabytes", sa.BigInteger(), nullable=False),
        sa.Column("counted_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("project_id", "user_id", "volume_type_id", name="pk_quota_usages"),
        if_not_exists=True,
    )
    op.create_table(
        "refusals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("refused_at", Timestamp, nullable=False),
        sa.Column("request_id", exact_text(64), nullable=False),
        sa.Column("volume_id", Uuid, nullable=False),
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.Column("verb", exact_text(8), nullable=False),
        sa.Column("request", exact_text(), nullable=False),
        sa.Column("filter", exact_text(255), nullable=False),
        sa.Column("code", exact_text(255), nullable=False),
        sa.Column("pool", exact_text(511), nullable=True),
        sa.Column("largest_size_gb", sa.Integer(), nullable=True),
        sa.Column("message", exact_text(), nullable=False),
        sa.Column("request_body", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_refusals"),
        if_not_exists=True,
    )
    op.create_index("ix_refusals_pool", "refusals", ["pool"], if_not_exists=True)
    op.create_index("ix_refusals_volume_id", "refusals", ["volume_id"], if_not_exists=True)
    op.create_table(
        "request_keys",
        sa.Column("request_id", exact_text(64), nullable=False),
        sa.Column("volume_id", Uuid, nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
        sa.Column("counted_from", Timestamp, nullable=False),
        sa.Column("refused", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("request_id", name="pk_request_keys"),
        if_not_exists=True,
    )
    op.create_index("ix_request_keys_counted_from", "request_keys", ["counted_from"], if_not_exists=True)
    op.create_index("ix_request_keys_volume_id", "request_keys", ["volume_id"], if_not_exists=True)
    op.create_table(
        "rules",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("default_ratio", exact_text(32), nullable=False),
        sa.Column("calculation", exact_text(16), nullable=False),
        sa.Column("hook_extensions", exact_text(255), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rules"),
        if_not_exists=True,
    )
    op.create_table(
        "services",
        sa.Column("binary", exact_text(64), nullable=False),
        sa.Column("host", exact_text(255), nullable=False),
        sa.Column("availability_zone", exact_text(255), nullable=False),
        sa.Column("last_seen_at", Timestamp, nullable=False),
        sa.Column("last_listened_at", Timestamp, nullable=True),
        sa.Column("default_ratio", exact_text(32), nullable=True),
        sa.Column("calculation", exact_text(16), nullable=True),
        sa.Column("hook_extensions", exact_text(255), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", exact_text(255), nullable=True),
        sa.Column("nonce", exact_text(32), nullable=True),
        sa.Column("ledger_fault", exact_text(255), nullable=True),
        sa.PrimaryKeyConstraint("binary", "host", name="pk_services"),
        if_not_exists=True,
    )
    op.create_table(
        "storages",
        sa.Column("name", exact_text(255), nullable=False),
        sa.Column("stamp", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_storages"),
        if_not_exists=True,
    )
    volume_types = op.create_table(
        "volume_types",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("name", exact_text(255), nullable=False),
        sa.Column("description", exact_text(255), nullable=True),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_volume_types"),
        sa.UniqueConstraint("name", name="uq_volume_types_name"),
        if_not_exists=True,
    )
    op.create_table(
        "writer_slots",
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("node", exact_text(511), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("slot", name="pk_writer_slots"),
        if_not_exists=True,
    )
    op.create_table(
        "write_probes",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("filler", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_write_probes"),
        if_not_exists=True,
    )
    op.create_table(
        "findings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("pool", exact_text(255), nullable=False),
        sa.Column("breach", exact_text(32), nullable=False),
        sa.Column("text", exact_text(), nullable=False),
        sa.Column("once_seq", sa.BigInteger(), nullable=True),
        sa.Column("seen_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["backend_id"], ["backends.id"], name="fk_findings_backend_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_findings"),
        sa.UniqueConstraint("backend_id", "pool", "breach", name="uq_findings_backend_id_pool_breach"),
        if_not_exists=True,
    )
    op.create_table(
        "storage_marks",
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("pool", exact_text(255), nullable=False),
        sa.Column("mark", exact_text(255), nullable=False),
        sa.ForeignKeyConstraint(
            ["backend_id"], ["backends.id"], name="fk_storage_marks_backend_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("backend_id", "pool", name="pk_storage_marks"),
        if_not_exists=True,
    )
    op.create_table(
        "groups",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("name", exact_text(255), nullable=True),
        sa.Column("description", exact_text(255), nullable=True),
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.Column("user_id", exact_text(255), nullable=False),
        sa.Column("group_type_id", Uuid, nullable=False),
        sa.Column("availability_zone", exact_text(255), nullable=True),
        sa.Column("status", exact_text(32), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(["group_type_id"], ["group_types.id"], name="fk_groups_group_type_id"),
        sa.PrimaryKeyConstraint("id", name="pk_groups"),
        if_not_exists=True,
    )
    op.create_index("ix_groups_group_type_id", "groups", ["group_type_id"], if_not_exists=True)
    op.create_index("ix_groups_project_id_created_at", "groups", ["project_id", "created_at", "id"], if_not_exists=True)
    op.create_table(
        "pools",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("name", exact_text(511), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.Column("allocated_capacity_gb", sa.BigInteger(), nullable=False),
        sa.Column("in_flight_gb", sa.BigInteger(), nullable=False),
        sa.Column("in_flight_physical_gb", sa.BigInteger(), nullable=False),
        sa.Column("total_capacity_gb", sa.Double(), nullable=True),
        sa.Column("free_capacity_gb", sa.Double(), nullable=True),
        sa.Column("provisioned_capacity_gb", sa.Double(), nullable=True),
        sa.Column("ratio", sa.Double(), nullable=False),
        sa.Column("thin_limit_gb", sa.Double(), nullable=True),
        sa.Column("physical_limit_gb", sa.Double(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("covers_epoch", sa.Integer(), nullable=False),
        sa.Column("covers_tick", sa.BigInteger(), nullable=False),
        sa.Column("covers_stamp", sa.BigInteger(), nullable=False),
        sa.Column("storage_id", exact_text(255), nullable=True),
        sa.Column("storage_free_gb", sa.Double(), nullable=True),
        sa.Column("shared_allocated_gb", sa.BigInteger(), nullable=False),
        sa.Column("shared_in_flight_gb", sa.BigInteger(), nullable=False),
        sa.Column("shared_in_flight_physical_gb", sa.BigInteger(), nullable=False),
        sa.Column("external_gb", sa.Double(), nullable=False),
        sa.Column("deleted_gb", sa.BigInteger(), nullable=False),
        sa.Column("moved_gb", sa.BigInteger(), nullable=False),
        sa.Column("reported_at", Timestamp, nullable=True),
        sa.Column("stats", sa.JSON(), nullable=False),
        sa.Column("exceeded_at", Timestamp, nullable=True),
        sa.Column("figures_at", Timestamp, nullable=True),
        sa.Column("unheard_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(["backend_id"], ["backends.id"], name="fk_pools_backend_id"),
        sa.PrimaryKeyConstraint("id", name="pk_pools"),
        sa.UniqueConstraint("name", name="uq_pools_name"),
        sqlite_autoincrement=True,
        if_not_exists=True,
    )
    op.create_index("ix_pools_backend_id", "pools", ["backend_id"], if_not_exists=True)
    op.create_index("ix_pools_backend_id_exceeded_at", "pools", ["backend_id", "exceeded_at"], if_not_exists=True)
    op.create_index("ix_pools_storage_id", "pools", ["storage_id"], if_not_exists=True)
    op.create_table(
        "volume_type_access",
        sa.Column("volume_type_id", Uuid, nullable=False),
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_type_id"], ["volume_types.id"], name="fk_volume_type_access_volume_type_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("volume_type_id", "project_id", name="pk_volume_type_access"),
        if_not_exists=True,
    )
    op.create_table(
        "volume_type_extra_specs",
        sa.Column("volume_type_id", Uuid, nullable=False),
        sa.Column("key", exact_text(255), nullable=False),
        sa.Column("value", exact_text(255), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_type_id"],
            ["volume_types.id"],
            name="fk_volume_type_extra_specs_volume_type_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("volume_type_id", "key", name="pk_volume_type_extra_specs"),
        if_not_exists=True,
    )
    op.create_table(
        "volume_type_qos_specs",
        sa.Column("volume_type_id", Uuid, nullable=False),
        sa.Column("qos_specs_id", Uuid, nullable=False),
        sa.ForeignKeyConstraint(["qos_specs_id"], ["qos_specs.id"], name="fk_volume_type_qos_specs_qos_specs_id"),
        sa.ForeignKeyConstraint(
            ["volume_type_id"], ["volume_types.id"], name="fk_volume_type_qos_specs_volume_type_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("volume_type_id", name="pk_volume_type_qos_specs"),
        if_not_exists=True,
    )
    op.create_index(
        "ix_volume_type_qos_specs_qos_specs_id", "volume_type_qos_specs", ["qos_specs_id"], if_not_exists=True
    )
    op.create_table(
        "claims",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("volume_id", Uuid, nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("pool_id", sa.Integer(), nullable=False),
        sa.Column("verb", exact_text(8), nullable=False),
        sa.Column("state", exact_text(12), nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("physical_gb", sa.Integer(), nullable=False),
        sa.Column("target_size_gb", sa.Integer(), nullable=False),
        sa.Column("provisioning", exact_text(8), nullable=False),
        sa.Column("contained", sa.Boolean(), nullable=False),
        sa.Column("end_epoch", sa.Integer(), nullable=True),
        sa.Column("end_tick", sa.BigInteger(), nullable=True),
        sa.Column("contained_by_all", sa.Boolean(), nullable=False),
        sa.Column("end_stamp", sa.BigInteger(), nullable=True),
        sa.Column("sent", sa.Boolean(), nullable=False),
        sa.Column("source_pool_id", sa.Integer(), nullable=True),
        sa.Column("reference", exact_text(255), nullable=True),
        sa.Column("volume_type_id", Uuid, nullable=True),
        sa.Column("request_id", exact_text(64), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["backend_id"], ["backends.id"], name="fk_claims_backend_id"),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name="fk_claims_pool_id"),
        sa.PrimaryKeyConstraint("id", name="pk_claims"),
        if_not_exists=True,
    )
    op.create_index("ix_claims_backend_id_contained", "claims", ["backend_id", "contained"], if_not_exists=True)
    op.create_index("ix_claims_pool_id_contained", "claims", ["pool_id", "contained"], if_not_exists=True)
    op.create_index("ix_claims_pool_id_contained_by_all", "claims", ["pool_id", "contained_by_all"], if_not_exists=True)
    op.create_index("ix_claims_state", "claims", ["state"], if_not_exists=True)
    op.create_index("ix_claims_volume_id", "claims", ["volume_id"], if_not_exists=True)
    op.create_table(
        "discrepancies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pool_id", sa.Integer(), nullable=False),
        sa.Column("volume_id", exact_text(255), nullable=False),
        sa.Column("category", exact_text(16), nullable=False),
        sa.Column("listed_gb", sa.Double(), nullable=False),
        sa.Column("ledger_gb", sa.Double(), nullable=False),
        sa.Column("seen_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name="fk_discrepancies_pool_id"),
        sa.PrimaryKeyConstraint("id", name="pk_discrepancies"),
        sa.UniqueConstraint("pool_id", "volume_id", name="uq_discrepancies_pool_id_volume_id"),
        if_not_exists=True,
    )
    op.create_table(
        "group_volume_types",
        sa.Column("group_id", Uuid, nullable=False),
        sa.Column("volume_type_id", Uuid, nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name="fk_group_volume_types_group_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["volume_type_id"], ["volume_types.id"], name="fk_group_volume_types_volume_type_id"),
        sa.PrimaryKeyConstraint("group_id", "volume_type_id", name="pk_group_volume_types"),
        if_not_exists=True,
    )
    op.create_index(
        "ix_group_volume_types_volume_type_id", "group_volume_types", ["volume_type_id"], if_not_exists=True
    )
    op.create_table(
        "volumes",
        sa.Column("id", Uuid, nullable=False),
        sa.Column("name", exact_text(255), nullable=True),
        sa.Column("description", exact_text(255), nullable=True),
        sa.Column("project_id", exact_text(255), nullable=False),
        sa.Column("user_id", exact_text(255), nullable=False),
        sa.Column("size_gb", sa.Integer(), nullable=False),
        sa.Column("status", exact_text(32), nullable=False),
        sa.Column("status_reason", exact_text(), nullable=True),
        sa.Column("volume_type_id", Uuid, nullable=True),
        sa.Column("availability_zone", exact_text(255), nullable=True),
        sa.Column("requested_zone", exact_text(255), nullable=True),
        sa.Column("pool_id", sa.Integer(), nullable=True),
        sa.Column("provisioning", exact_text(8), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("hints", sa.JSON(), nullable=False),
        sa.Column("attempted_pools", sa.JSON(), nullable=False),
        sa.Column("request_id", exact_text(64), nullable=False),
        sa.Column("source_volume_id", Uuid, nullable=True),
        sa.Column("migration_status", exact_text(32), nullable=True),
        sa.Column("drain_refusal", exact_text(), nullable=True),
        sa.Column("group_id", Uuid, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name="fk_volumes_pool_id"),
        sa.ForeignKeyConstraint(["volume_type_id"], ["volume_types.id"], name="fk_volumes_volume_type_id"),
        sa.PrimaryKeyConstraint("id", name="pk_volumes"),
        if_not_exists=True,
    )
    op.create_index("ix_volumes_group_id", "volumes", ["group_id"], if_not_exists=True)
    op.create_index("ix_volumes_pool_id", "volumes", ["pool_id"], if_not_exists=True)
    op.create_index(
        "ix_volumes_project_id_created_at", "volumes", ["project_id", "created_at", "id"], if_not_exists=True
    )
    op.create_index("ix_volumes_status", "volumes", ["status"], if_not_exists=True)
    op.create_index("ix_volumes_volume_type_id", "volumes", ["volume_type_id"], if_not_exists=True)
    # The last step: MariaDB commits it together with the revision.
    op.bulk_insert(
        volume_types,
        [
            {
                "id": str(uuid.uuid4()),
                "name": "__DEFAULT__",
                "description": "Default Volume Type",
                "is_public": True,
                "created_at": datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
            }
        ],
    )
