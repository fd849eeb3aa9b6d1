-- What MySQL and MariaDB both understand, and count alike. Every statement's figures are compared.
CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(40), KEY (b)) ENGINE = InnoDB;
CREATE TABLE u (a INT PRIMARY KEY, d VARCHAR(20)) ENGINE = InnoDB;
INSERT INTO t VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, 'three'), (4, 20, 'four');
INSERT INTO u VALUES (1, 'uno'), (3, 'tres');
ANALYZE TABLE t, u;

-- Rows and how they are found.
-- @repeat 20
SELECT c FROM t WHERE a = 1;
-- @repeat 3
SELECT c FROM t WHERE a = 99;
SELECT c FROM t;
SELECT c FROM t WHERE c = 'two';
SELECT c FROM t WHERE b = 20;
SELECT c FROM t WHERE a BETWEEN 2 AND 3;
SELECT c FROM t ORDER BY c;
SELECT c FROM t ORDER BY c DESC LIMIT 2;
SELECT b, COUNT(*) FROM t GROUP BY b;
SELECT DISTINCT b FROM t;
SELECT t.c, u.d FROM t JOIN u ON t.a = u.a;
SELECT t.c, u.d FROM t LEFT JOIN u ON t.a = u.a;
SELECT COUNT(*) FROM t;
SELECT a FROM t UNION SELECT a FROM u;
SELECT a FROM t WHERE a IN (SELECT a FROM u);
SELECT 1;
UPDATE t SET b = b + 1 WHERE a < 3;
UPDATE t SET b = b WHERE a = 1;
DELETE FROM t WHERE a = 4;
INSERT INTO t SELECT a + 10, b, c FROM t;
REPLACE INTO t VALUES (1, 11, 'uno'), (7, 70, 'seven');

-- What takes its time.
-- @repeat 3
SELECT SLEEP(0.01);
SELECT SLEEP(0.12);

-- Errors and warnings.
-- @repeat 2
-- @error 1062
INSERT INTO t VALUES (1, 1, 'again');
-- @error 1146
SELECT * FROM nowhere;
-- @error 1054
SELECT nothing FROM t;
-- @error 1064
SELEC 1;
-- @error 1365
INSERT INTO t SELECT 90 / 0, 1, 'x';
-- @error 1406
INSERT INTO u VALUES (9, 'longer than the twenty characters it may have');
SELECT CAST('x' AS SIGNED);
DROP TABLE IF EXISTS nowhere;
-- @error 1644
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'of its own';

-- Errors that a program swallows.
-- @block
CREATE PROCEDURE swallow()
BEGIN
  DECLARE CONTINUE HANDLER FOR 1062 SET @seen = 1;
  DECLARE CONTINUE HANDLER FOR SQLSTATE '42S02' SET @seen = 2;
  INSERT INTO t VALUES (1, 1, 'again');
  INSERT INTO t VALUES (1, 1, 'again');
  SELECT * FROM nowhere;
END
-- @end
-- @repeat 2
CALL swallow();
-- @block
CREATE PROCEDURE stumble()
BEGIN
  INSERT INTO t VALUES (1, 1, 'again');
END
-- @end
-- @error 1062
CALL stumble();

-- Transactions.
START TRANSACTION;
UPDATE t SET c = 'changed' WHERE a = 2;
SAVEPOINT s;
DELETE FROM t WHERE a = 3;
ROLLBACK TO SAVEPOINT s;
COMMIT;
START TRANSACTION;
INSERT INTO u VALUES (5, 'cinco');
ROLLBACK;

DROP PROCEDURE swallow;
DROP PROCEDURE stumble;
DROP TABLE t, u;
