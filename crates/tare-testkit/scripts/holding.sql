-- What connections still have when they are looked at: metadata locks, locked tables, prepared statements, programs.
CREATE TABLE t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB;
CREATE TABLE m (a INT PRIMARY KEY, b INT) ENGINE=MyISAM;
CREATE TABLE n (a INT PRIMARY KEY, b INT) ENGINE=MyISAM;
INSERT INTO t VALUES (1, 1), (2, 2);
INSERT INTO m VALUES (1, 1), (2, 2);
-- @block
CREATE PROCEDURE kept(IN n INT)
BEGIN
  DECLARE i INT DEFAULT 0;
  WHILE i < n DO
    INSERT INTO t VALUES (10 + i, i);
    SET i = i + 1;
  END WHILE;
  SELECT COUNT(*) FROM t;
END
-- @end
-- @block
CREATE FUNCTION half(x INT) RETURNS INT DETERMINISTIC
BEGIN
  RETURN x DIV 2;
END
-- @end
CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW SET NEW.b = NEW.b + half(2);
-- @block
CREATE PROCEDURE prepares()
BEGIN
  PREPARE inner_one FROM 'SELECT COUNT(*) FROM t';
  EXECUTE inner_one;
END
-- @end
CALL kept(3);
UPDATE t SET b = 0 WHERE a > 9;
SELECT half(b) FROM t;
CALL prepares();
PREPARE p FROM 'SELECT * FROM t WHERE b > ? ORDER BY b';
SET @b = 0;
EXECUTE p USING @b;
EXECUTE p USING @b;
PREPARE i FROM 'INSERT INTO t VALUES (1, 1)';
-- @error 1062
EXECUTE i;
ALTER TABLE t ADD COLUMN c INT;
EXECUTE p USING @b;
-- @prepare s
SELECT COUNT(*) FROM t WHERE a < ?;
-- @execute s 5
SELECT GET_LOCK('tare', 1);
BEGIN;
SELECT * FROM t WHERE a = 1;
UPDATE t SET b = 7 WHERE a = 2;
-- @connection 2
LOCK TABLES m WRITE, n READ LOCAL;
INSERT INTO m VALUES (5, 5);
-- @connection 1
HANDLER t OPEN;
HANDLER t READ FIRST;
-- Somebody waits when all is looked at, until the others have gone.
-- @connection 3
SET innodb_lock_wait_timeout = 1000;
-- @send
UPDATE t SET b = 8 WHERE a = 2;
-- @until SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'
