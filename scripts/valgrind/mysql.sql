-- What `scripts/valgrind.sh mysql` has a server do: statements of every kind that tare sees, each table read and reset.
CREATE DATABASE work;
USE work;
CREATE TABLE t (id INT PRIMARY KEY, c INT, t TEXT, KEY (c));
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, REPEAT('b', 9000)), (3, 3, NULL);
UPDATE t SET c = c + 1 WHERE id < 3;
CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM;
INSERT INTO m VALUES (1), (2);
DELIMITER //
CREATE FUNCTION f (a INT) RETURNS INT DETERMINISTIC BEGIN DECLARE b INT; SET b = a + 1; RETURN b; END//
CREATE PROCEDURE p () BEGIN
    DECLARE i INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET i = i + 1;
    WHILE i < 4 DO SELECT f(id), COUNT(*) FROM t GROUP BY id ORDER BY MAX(c); SELECT * FROM missing; SET i = i + 1; END WHILE;
    PREPARE s FROM 'SELECT * FROM t WHERE id = ?'; SET @a = 2; EXECUTE s USING @a; EXECUTE s USING @a; DEALLOCATE PREPARE s;
END//
CREATE TRIGGER r AFTER INSERT ON m FOR EACH ROW UPDATE t SET c = c + 1//
DELIMITER ;
CALL p();
BEGIN; INSERT INTO m VALUES (3); INSERT INTO t VALUES (4, 4, ''); SAVEPOINT a; DELETE FROM t WHERE id = 1; ROLLBACK TO a; COMMIT;
XA START 'x'; UPDATE t SET c = 0; XA END 'x'; XA PREPARE 'x'; XA ROLLBACK 'x';
SELECT a.id FROM t a, t b, m ORDER BY a.t DESC, b.c LIMIT 3;
ALTER TABLE t ADD d INT;
LOCK TABLES t WRITE; UNLOCK TABLES;
FLUSH TABLES;
-- Settings, one after the other and back.
UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'thread_instrumentation';
SELECT * FROM t;
UPDATE performance_schema.setup_consumers SET ENABLED = 'YES';
UPDATE performance_schema.threads SET INSTRUMENTED = 'NO', HISTORY = 'NO';
SELECT * FROM t;
UPDATE performance_schema.threads SET INSTRUMENTED = 'YES', HISTORY = 'YES';
UPDATE performance_schema.setup_instruments SET ENABLED = 'NO', TIMED = 'NO' WHERE NAME NOT LIKE 'memory/performance_schema/%';
SELECT * FROM t;
UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES' WHERE NAME <> '';
UPDATE performance_schema.setup_objects SET ENABLED = 'NO';
SELECT * FROM t;
UPDATE performance_schema.setup_objects SET ENABLED = 'YES';
