-- An event runs in a thread of its own and leaves a row behind.
CREATE TABLE t (a INT PRIMARY KEY) ENGINE=InnoDB;
SET GLOBAL event_scheduler = ON;
CREATE EVENT e ON SCHEDULE AT CURRENT_TIMESTAMP ON COMPLETION NOT PRESERVE DO INSERT INTO o_schedule.t VALUES (1);
-- @until SELECT (SELECT COUNT(*) FROM mysql.event) = 0 AND (SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Executed_events') = 1 AND (SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'o_schedule') = 1
SET GLOBAL event_scheduler = OFF;
SELECT * FROM t;
SHOW EVENTS;
