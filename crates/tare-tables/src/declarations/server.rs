//! Facts of the server rather than of the instrumentation: views over the server's own tables where there are
//! some, and tables without rows where reading would need the server's locks.

use crate::framework::view::{ViewDef, expressed, expressed_or_null};
use crate::table::SqlType::{Int, VarChar};

/// Columns with name and value of the server's table `s`. That table has all names in capitals. In the
/// Performance Schema only the first letter is a capital, except for the names listed here.
macro_rules! status_columns {
    ($value:literal) => {
        &[
            expressed(
                "VARIABLE_NAME",
                VarChar(64),
                "Name of the status variable.",
                "ifnull(cast(\
                 if(left(`s`.`VARIABLE_NAME`,5) = 'WSREP' \
                 or `s`.`VARIABLE_NAME` in ('OPTIMIZER_JOIN_PREFIXES_CHECK_CALLS','STACK_USAGE'),\
                 lcase(`s`.`VARIABLE_NAME`),\
                 if(left(`s`.`VARIABLE_NAME`,29) = 'INNODB_BUFFER_POOL_PAGES_LRU_',\
                 concat('Innodb_buffer_pool_pages_LRU_',lcase(substr(`s`.`VARIABLE_NAME`,30))),\
                 concat(left(`s`.`VARIABLE_NAME`,1),lcase(substr(`s`.`VARIABLE_NAME`,2)))))\
                 as char(64) charset utf8mb3) collate utf8mb3_general_ci,'')",
            ),
            expressed_or_null("VARIABLE_VALUE", VarChar(4096), $value, "`s`.`VARIABLE_VALUE`"),
        ]
    };
}

/// The server's table as `s`, on the optional side of a join, so that its values may be NULL as in the
/// built-in. Leaves out the variables that the built-in shows in tables of their own.
macro_rules! status_of {
    ($status:literal, $beside:literal, $condition:literal) => {
        concat!(
            $beside,
            " LEFT JOIN `information_schema`.`",
            $status,
            "` `s` ON 1 WHERE ",
            $condition,
            "left(`s`.`VARIABLE_NAME`,4) <> 'COM_' AND `s`.`VARIABLE_NAME` NOT IN ",
            "('SLAVE_HEARTBEAT_PERIOD','SLAVE_RECEIVED_HEARTBEATS','SLAVE_RETRIED_TRANSACTIONS','SLAVE_RUNNING')"
        )
    };
}

/// The table `global_status`.
pub static GLOBAL_STATUS: ViewDef = ViewDef::new(
    "global_status",
    "The server's status, as information_schema.GLOBAL_STATUS has it. Counters of commands (Com_) and of \
     replicas are left out, as in MariaDB's own.",
    &[status_columns!("Its value for the server as a whole.")],
    status_of!("GLOBAL_STATUS", "(SELECT 1) `o`", ""),
);

/// The table `session_status`.
pub static SESSION_STATUS: ViewDef = ViewDef::new(
    "session_status",
    "The status of the session that asks, as information_schema.SESSION_STATUS has it. Counters of commands \
     (Com_) and of replicas are left out, as in MariaDB's own.",
    &[status_columns!(
        "Its value for the session that asks; for the server if sessions have no value of their own."
    )],
    status_of!("SESSION_STATUS", "(SELECT 1) `o`", ""),
);

/// The table `session_account_connect_attrs`.
pub static SESSION_ACCOUNT_CONNECT_ATTRS: ViewDef = ViewDef::new(
    "session_account_connect_attrs",
    "Connection attributes of the sessions of the account that asks. Unlike in MariaDB's own, the account needs \
     SELECT on threads and session_connect_attrs, from which they are taken.",
    &[&[
        expressed("PROCESSLIST_ID", Int, "Number of the connection.", "`a`.`PROCESSLIST_ID`"),
        expressed("ATTR_NAME", VarChar(32), "Name of the attribute.", "`a`.`ATTR_NAME`"),
        expressed_or_null("ATTR_VALUE", VarChar(1024), "Value that the client sent.", "`a`.`ATTR_VALUE`"),
        expressed_or_null(
            "ORDINAL_POSITION",
            Int,
            "Position among the attributes of the connection, from 0.",
            "`a`.`ORDINAL_POSITION`",
        ),
    ]],
    "`performance_schema`.`threads` `o` \
     JOIN `performance_schema`.`threads` `t` ON `t`.`PROCESSLIST_USER` = `o`.`PROCESSLIST_USER` \
     AND `t`.`PROCESSLIST_HOST` <=> `o`.`PROCESSLIST_HOST` \
     JOIN `performance_schema`.`session_connect_attrs` `a` ON `a`.`PROCESSLIST_ID` = `t`.`PROCESSLIST_ID` \
     WHERE `o`.`PROCESSLIST_ID` = connection_id()",
);
