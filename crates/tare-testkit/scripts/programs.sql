-- Procedures and functions with loops, cursors, handlers, nested calls and signals.
CREATE TABLE t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB;
-- @block
CREATE PROCEDURE fill(IN n INT)
BEGIN
  DECLARE i INT DEFAULT 1;
  WHILE i <= n DO
    INSERT INTO t VALUES (i, i * 10);
    SET i = i + 1;
  END WHILE;
END
-- @end
-- @block
CREATE FUNCTION twice(x INT) RETURNS INT DETERMINISTIC
BEGIN
  IF x IS NULL THEN
    RETURN 0;
  END IF;
  RETURN x * 2;
END
-- @end
-- @block
CREATE PROCEDURE walk(OUT total INT)
BEGIN
  DECLARE v INT;
  DECLARE done INT DEFAULT 0;
  DECLARE c CURSOR FOR SELECT b FROM t ORDER BY a;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;
  SET total = 0;
  OPEN c;
  every: LOOP
    FETCH c INTO v;
    IF done THEN
      LEAVE every;
    END IF;
    SET total = total + twice(v);
  END LOOP;
  CLOSE c;
END
-- @end
-- @block
CREATE PROCEDURE guarded()
BEGIN
  DECLARE EXIT HANDLER FOR 1062 SELECT 'duplicate';
  INSERT INTO t VALUES (1, 1);
  SELECT 'not reached';
END
-- @end
-- @block
CREATE PROCEDURE outermost()
BEGIN
  CASE 2 WHEN 1 THEN SELECT 1; WHEN 2 THEN CALL guarded(); ELSE SELECT 3; END CASE;
  REPEAT SET @n = @n - 1; UNTIL @n <= 0 END REPEAT;
END
-- @end
-- @block
CREATE PROCEDURE failing()
BEGIN
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'as told', MYSQL_ERRNO = 30001;
END
-- @end
-- @block
CREATE PROCEDURE deep(IN n INT)
BEGIN
  IF n > 0 THEN
    CALL deep(n - 1);
  END IF;
END
-- @end
CALL fill(5);
CALL walk(@total);
SELECT @total, twice(4), twice(NULL);
SELECT a, twice(b) FROM t;
CALL guarded();
SET @n = 3;
CALL outermost();
-- @error 30001
CALL failing();
SET max_sp_recursion_depth = 20;
CALL deep(3);
-- @error 1456
CALL deep(30);
CALL deep(13);
-- @error 1305
CALL missing();
-- @block
BEGIN NOT ATOMIC
  DECLARE x INT DEFAULT 1;
  SET x = x + 1;
  SELECT x;
END
-- @end
ALTER PROCEDURE fill COMMENT 'changed';
SHOW CREATE PROCEDURE fill;
DROP FUNCTION twice;
DROP PROCEDURE fill;
DROP PROCEDURE walk;
DROP PROCEDURE guarded;
DROP PROCEDURE outermost;
DROP PROCEDURE failing;
DROP PROCEDURE deep;
