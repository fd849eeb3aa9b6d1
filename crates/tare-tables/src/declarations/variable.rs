//! The server's variables and similar facts, as MySQL shows them: views over the server's own tables.

use crate::framework::view::{ViewColumn, ViewDef, expressed, expressed_or_null};
use crate::table::SqlType::{
    BigInt, BigIntUnsigned, Char, Int, MediumText, TimestampMicros, TinyInt, VarChar,
};

/// Name of a variable. `information_schema` has it in capitals.
const NAME: ViewColumn = expressed(
    "VARIABLE_NAME",
    VarChar(64),
    "What the variable is called, in small letters.",
    "lcase(`v`.`VARIABLE_NAME`)",
);
const VALUE: ViewColumn =
    expressed_or_null("VARIABLE_VALUE", VarChar(2048), "Its value, as text.", "`v`.`VARIABLE_VALUE`");

/// The table `global_variables`.
pub static GLOBAL_VARIABLES: ViewDef = ViewDef::new(
    "global_variables",
    "The server's global variables, as information_schema.GLOBAL_VARIABLES has them.",
    &[&[NAME, VALUE]],
    "`information_schema`.`GLOBAL_VARIABLES` `v`",
);

/// The table `session_variables`.
pub static SESSION_VARIABLES: ViewDef = ViewDef::new(
    "session_variables",
    "The variables of the session that asks, as information_schema.SESSION_VARIABLES has them. A variable that \
     exists only globally has its global value.",
    &[&[NAME, VALUE]],
    "`information_schema`.`SESSION_VARIABLES` `v`",
);

/// The table `variables_by_thread`.
pub static VARIABLES_BY_THREAD: ViewDef = ViewDef::new(
    "variables_by_thread",
    "The variables of the session that asks, with its thread. Other sessions have no rows, because reading their variables \
     would need the server's locks.",
    &[
        &[expressed("THREAD_ID", BigIntUnsigned, "Thread of the session that asks.", "`t`.`THREAD_ID`")],
        &[NAME, VALUE],
    ],
    "`performance_schema`.`threads` `t` JOIN `information_schema`.`SESSION_VARIABLES` `v` \
     WHERE `t`.`PROCESSLIST_ID` = connection_id()",
);

/// The table `variables_info`.
pub static VARIABLES_INFO: ViewDef = ViewDef::new(
    "variables_info",
    "How each variable got its value. MariaDB does not distinguish kinds of option files, so all of them are GLOBAL. It does \
     not record who set a variable, and when.",
    &[&[
        NAME,
        expressed_or_null(
            "VARIABLE_SOURCE",
            VarChar(12),
            "COMPILED: its default, or what the server chose; GLOBAL: an option file; COMMAND_LINE: the command line or \
             the environment; DYNAMIC: a SET.",
            "case `v`.`GLOBAL_VALUE_ORIGIN` when 'CONFIG' then 'GLOBAL' when 'COMMAND-LINE' then 'COMMAND_LINE' \
             when 'ENVIRONMENT' then 'COMMAND_LINE' when 'SQL' then 'DYNAMIC' else 'COMPILED' end",
        ),
        expressed_or_null(
            "VARIABLE_PATH",
            VarChar(1024),
            "The option file; empty if the value is not from one.",
            "ifnull(`v`.`GLOBAL_VALUE_PATH`,'')",
        ),
        expressed_or_null(
            "MIN_VALUE",
            VarChar(64),
            "Least value of a number; else 0.",
            "ifnull(`v`.`NUMERIC_MIN_VALUE`,'0')",
        ),
        expressed_or_null(
            "MAX_VALUE",
            VarChar(64),
            "Greatest value of a number; else 0.",
            "ifnull(`v`.`NUMERIC_MAX_VALUE`,'0')",
        ),
        expressed_or_null(
            "SET_TIME",
            TimestampMicros,
            "Always NULL: MariaDB does not record it.",
            NOBODY_KNOWS,
        ),
        expressed_or_null("SET_USER", Char(32), "Always NULL: MariaDB does not record it.", NOBODY_KNOWS),
        expressed_or_null("SET_HOST", Char(255), "Always NULL: MariaDB does not record it.", NOBODY_KNOWS),
    ]],
    "`information_schema`.`SYSTEM_VARIABLES` `v`",
);

/// NULL with the type of a text.
const NOBODY_KNOWS: &str = "nullif('','')";

/// The table `variables_metadata`.
pub static VARIABLES_METADATA: ViewDef = ViewDef::new(
    "variables_metadata",
    "What the server's variables are, as information_schema.SYSTEM_VARIABLES has it.",
    &[&[
        NAME,
        expressed(
            "VARIABLE_SCOPE",
            VarChar(12),
            "Who has a value of its own: GLOBAL, SESSION or SESSION_ONLY.",
            "replace(`v`.`VARIABLE_SCOPE`,' ','_')",
        ),
        expressed(
            "DATA_TYPE",
            VarChar(12),
            "Integer, Numeric, String, Enumeration, Boolean or Set.",
            "case `v`.`VARIABLE_TYPE` when 'BOOLEAN' then 'Boolean' when 'ENUM' then 'Enumeration' \
             when 'SET' then 'Set' when 'FLAGSET' then 'Set' when 'VARCHAR' then 'String' \
             when 'DOUBLE' then 'Numeric' else 'Integer' end",
        ),
        expressed_or_null(
            "MIN_VALUE",
            VarChar(64),
            "Least value of a number; else empty.",
            "ifnull(`v`.`NUMERIC_MIN_VALUE`,'')",
        ),
        expressed_or_null(
            "MAX_VALUE",
            VarChar(64),
            "Greatest value of a number; else empty.",
            "ifnull(`v`.`NUMERIC_MAX_VALUE`,'')",
        ),
        expressed("DOCUMENTATION", MediumText, "What it is for, in a sentence.", "`v`.`VARIABLE_COMMENT`"),
    ]],
    "`information_schema`.`SYSTEM_VARIABLES` `v`",
);

/// The table `tls_channel_status`.
pub static TLS_CHANNEL_STATUS: ViewDef = ViewDef::new(
    "tls_channel_status",
    "The server's TLS: its status variables that begin with Ssl, and the system variables that name certificates and \
     ciphers.",
    &[&[
        expressed("CHANNEL", VarChar(128), "Always mysql_main: there is no other.", "'mysql_main'"),
        expressed("PROPERTY", VarChar(128), "Name of the variable.", "`p`.`PROPERTY`"),
        expressed("VALUE", VarChar(2048), "Value of that variable.", "ifnull(`p`.`VALUE`,'')"),
    ]],
    "(SELECT 'Enabled' AS `PROPERTY`, if(`h`.`VARIABLE_VALUE` = 'YES','Yes','No') AS `VALUE` \
     FROM `information_schema`.`GLOBAL_VARIABLES` `h` WHERE `h`.`VARIABLE_NAME` = 'HAVE_SSL' \
     UNION ALL \
     SELECT concat('Current_tls_',replace(replace(lcase(`g`.`VARIABLE_NAME`),'ssl_',''),'tls_','')), \
     `g`.`VARIABLE_VALUE` FROM `information_schema`.`GLOBAL_VARIABLES` `g` WHERE `g`.`VARIABLE_NAME` IN \
     ('SSL_CA','SSL_CAPATH','SSL_CERT','SSL_CIPHER','SSL_CRL','SSL_CRLPATH','SSL_KEY','TLS_VERSION') \
     UNION ALL \
     SELECT concat('Ssl',lcase(substr(`s`.`VARIABLE_NAME`,4))),`s`.`VARIABLE_VALUE` \
     FROM `information_schema`.`GLOBAL_STATUS` `s` WHERE left(`s`.`VARIABLE_NAME`,4) = 'SSL_') `p`",
);

/// The table `user_defined_functions`.
pub static USER_DEFINED_FUNCTIONS: ViewDef = ViewDef::new(
    "user_defined_functions",
    "The functions in libraries that CREATE FUNCTION … SONAME has registered, as mysql.func has them; the account \
     needs SELECT on mysql.func. The server does not count their uses.",
    &[&[
        expressed("UDF_NAME", VarChar(64), "Name of the function.", "`f`.`name`"),
        expressed(
            "UDF_RETURN_TYPE",
            VarChar(20),
            "What it returns: char, double, integer or decimal.",
            "case `f`.`ret` when 0 then 'char' when 1 then 'double' when 2 then 'integer' else 'decimal' end",
        ),
        expressed("UDF_TYPE", VarChar(20), "Whether it is a function or an aggregate.", "`f`.`type`"),
        expressed_or_null("UDF_LIBRARY", VarChar(1024), "File of its library.", "`f`.`dl`"),
        expressed_or_null("UDF_USAGE_COUNT", BigInt, "Always 0: the server does not count them.", "0"),
    ]],
    "`mysql`.`func` `f`",
);

/// The server's value of a name; 0 if there is none.
macro_rules! server_value {
    ($table:literal, $name:literal) => {
        concat!(
            "ifnull((SELECT `x`.`VARIABLE_VALUE` FROM `information_schema`.`",
            $table,
            "` `x` WHERE `x`.`VARIABLE_NAME` = '",
            $name,
            "'),0)"
        )
    };
}

/// The table `innodb_redo_log_files`.
pub static INNODB_REDO_LOG_FILES: ViewDef = ViewDef::new(
    "innodb_redo_log_files",
    "InnoDB's redo log, which in MariaDB is one file that is overwritten in a circle.",
    &[&[
        expressed("FILE_ID", BigInt, "Always 0: there is no other.", "0"),
        expressed(
            "FILE_NAME",
            VarChar(2000),
            "Path of the file.",
            "concat(`d`.`VARIABLE_VALUE`,if(right(`d`.`VARIABLE_VALUE`,1) = '/','','/'),'ib_logfile0')",
        ),
        expressed(
            "START_LSN",
            BigIntUnsigned,
            "LSN of the last checkpoint, from which on the file is needed.",
            server_value!("GLOBAL_STATUS", "INNODB_LSN_LAST_CHECKPOINT"),
        ),
        expressed(
            "END_LSN",
            BigIntUnsigned,
            "LSN after the last byte written.",
            server_value!("GLOBAL_STATUS", "INNODB_LSN_CURRENT"),
        ),
        expressed(
            "SIZE_IN_BYTES",
            BigInt,
            "Size of the file, bytes.",
            server_value!("GLOBAL_VARIABLES", "INNODB_LOG_FILE_SIZE"),
        ),
        expressed("IS_FULL", TinyInt, "Always 0: it is overwritten in a circle.", "0"),
        expressed("CONSUMER_LEVEL", Int, "Always 0: the log has no other reader.", "0"),
    ]],
    "`information_schema`.`GLOBAL_VARIABLES` `d` WHERE `d`.`VARIABLE_NAME` = 'INNODB_LOG_GROUP_HOME_DIR'",
);
