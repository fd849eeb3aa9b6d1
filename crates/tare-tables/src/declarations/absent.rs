//! Tables of MySQL that exist here but are empty: the host has nothing like what they show.

use crate::framework::absent::AbsentDef;
use crate::table::Table;

/// All of these tables, by name.
pub(crate) static TABLES: &[&dyn Table] = &[
    &AbsentDef::new(
        "binary_log_transaction_compression_stats",
        "Always empty: MariaDB compresses events of the binary log, not transactions.",
    ),
    &AbsentDef::new("clone_progress", CLONE),
    &AbsentDef::new("clone_status", CLONE),
    &AbsentDef::new("global_variable_attributes", "Always empty: MariaDB's variables have no attributes."),
    &AbsentDef::new("keyring_component_status", KEYRING),
    &AbsentDef::new("keyring_keys", KEYRING),
    &AbsentDef::new("persisted_variables", "Always empty: MariaDB has no SET PERSIST."),
    &AbsentDef::new("replication_applier_filters", FILTERS),
    &AbsentDef::new("replication_applier_global_filters", FILTERS),
    &AbsentDef::new("replication_asynchronous_connection_failover", FAILOVER),
    &AbsentDef::new("replication_asynchronous_connection_failover_managed", FAILOVER),
    &AbsentDef::new("replication_group_member_stats", GROUP),
    &AbsentDef::new("replication_group_members", GROUP),
    &AbsentDef::new("setup_loggers", TELEMETRY),
    &AbsentDef::new("setup_meters", TELEMETRY),
    &AbsentDef::new("setup_metrics", TELEMETRY),
    &AbsentDef::new("temporary_account_locks", "Always empty: MariaDB does not lock accounts temporarily."),
];

const CLONE: &str = "Always empty: MariaDB has no clone plugin.";
const KEYRING: &str = "Always empty: MariaDB keeps keys in plugins of its own.";
const FILTERS: &str = "Always empty: MariaDB's filters are system variables, such as @@replicate_do_db.";
const FAILOVER: &str = "Always empty: MariaDB's replicas do not change their primary by themselves.";
const GROUP: &str = "Always empty: MariaDB has no group replication.";
const TELEMETRY: &str = "Always empty: MariaDB's server sends no telemetry.";
