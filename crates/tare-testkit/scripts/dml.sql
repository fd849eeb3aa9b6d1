-- Rows in and out of an InnoDB table, by key, by index, by scan; errors on the way.
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(40), c INT, KEY k (c)) ENGINE=InnoDB;
INSERT INTO t VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', 30);
INSERT INTO t SELECT a + 10, b, c FROM t;
-- @error 1062
INSERT INTO t VALUES (1, 'again', 0);
INSERT IGNORE INTO t VALUES (1, 'again', 0), (4, 'four', 40);
REPLACE INTO t VALUES (4, 'vier', 41);
INSERT INTO t VALUES (4, 'x', 1) ON DUPLICATE KEY UPDATE c = c + 1;
SELECT * FROM t WHERE a = 2;
-- @repeat 5
SELECT b FROM t WHERE c = 20;
SELECT COUNT(*) FROM t;
SELECT * FROM t WHERE b LIKE 't%' ORDER BY b;
SELECT x.a, y.b FROM t x JOIN t y ON x.c = y.c WHERE x.a < 4;
SELECT c, COUNT(*) FROM t GROUP BY c ORDER BY 2 DESC;
UPDATE t SET b = CONCAT(b, '!') WHERE a BETWEEN 1 AND 3;
UPDATE t SET c = c + 1;
UPDATE t x JOIN t y ON x.a = y.a SET x.b = 'm' WHERE y.a = 11;
DELETE FROM t WHERE a = 12;
DELETE x FROM t x JOIN t y ON x.a = y.a + 10 WHERE y.a = 1;
-- @error 1146
SELECT * FROM missing;
-- @error 1054
SELECT nothing FROM t;
-- @error 1064
SELEKT 1;
DELETE FROM t;
TRUNCATE TABLE t;
