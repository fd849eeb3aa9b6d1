-- Two connections in each other's way: table locks, metadata locks, row locks, a deadlock, user locks.
CREATE TABLE t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB;
CREATE TABLE m (a INT PRIMARY KEY, b INT) ENGINE=MyISAM;
INSERT INTO t VALUES (1, 1), (2, 2);
INSERT INTO m VALUES (1, 1), (2, 2);
LOCK TABLES t READ, m WRITE;
-- @error 1099
INSERT INTO t VALUES (3, 3);
INSERT INTO m VALUES (3, 3);
-- @connection 2
-- @send
SELECT COUNT(*) FROM m;
-- @until SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%' AND info LIKE 'SELECT COUNT(*) FROM m%'
-- @connection 1
UNLOCK TABLES;
-- @connection 2
-- @reap
-- @connection 1
BEGIN;
SELECT * FROM t;
-- @connection 2
-- @send
ALTER TABLE t ADD COLUMN c INT;
-- @until SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'
-- @connection 1
COMMIT;
-- @connection 2
-- @reap
-- @connection 1
BEGIN;
UPDATE t SET b = 5 WHERE a = 1;
-- @connection 2
BEGIN;
-- @send
UPDATE t SET b = 6 WHERE a = 1;
-- @until SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'
-- @connection 1
COMMIT;
-- @connection 2
-- @reap
ROLLBACK;
SET SESSION innodb_lock_wait_timeout = 1;
SET SESSION lock_wait_timeout = 1;
-- @connection 1
SELECT GET_LOCK('tare', 1);
LOCK TABLES t WRITE;
-- @connection 2
-- @error 1205
SELECT * FROM t;
SELECT GET_LOCK('tare', 0);
-- @connection 1
UNLOCK TABLES;
SELECT RELEASE_LOCK('tare');
FLUSH TABLES;
FLUSH TABLES t WITH READ LOCK;
UNLOCK TABLES;
FLUSH TABLES WITH READ LOCK;
UNLOCK TABLES;
HANDLER t OPEN;
HANDLER t READ FIRST;
HANDLER t CLOSE;
