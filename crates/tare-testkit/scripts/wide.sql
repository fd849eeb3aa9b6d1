-- Every figure a statement can have, in a user's own statements, in a procedure's, and in prepared ones that are kept.
-- @user o_wide
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(200), c INT, KEY k (c)) ENGINE=InnoDB;
CREATE TABLE m (a INT PRIMARY KEY, b TEXT, c INT, KEY k (c)) ENGINE=MyISAM;
INSERT INTO t SELECT seq, REPEAT(MD5(seq), 5), seq % 97 FROM seq_1_to_500;
INSERT INTO m SELECT * FROM t WHERE a < 50;
SET sort_buffer_size = 8192;
-- A sort with merges, one of a range, a temporary table on disk, joins by scan, by range, by range per row, a warning.
SELECT a, b FROM t ORDER BY b;
SELECT a, b FROM t WHERE a BETWEEN 10 AND 40 ORDER BY b;
SELECT DISTINCT b FROM m;
SELECT COUNT(*) FROM t x, t y WHERE x.b < y.b AND y.a < 4;
SELECT STRAIGHT_JOIN COUNT(*) FROM m x, t y WHERE y.a BETWEEN 2 AND 5 AND x.b <> y.b;
SELECT STRAIGHT_JOIN COUNT(*) FROM m x, m y WHERE y.c < x.a;
SELECT CAST('12x' AS INT);
UPDATE t SET c = c + 1 WHERE a < 10;
BEGIN;
SAVEPOINT one;
DELETE FROM t WHERE a = 3;
ROLLBACK TO SAVEPOINT one;
COMMIT;
-- @block
CREATE PROCEDURE wide()
BEGIN
  SELECT a, b FROM t ORDER BY b;
  SELECT a, b FROM t WHERE a BETWEEN 10 AND 40 ORDER BY b;
  SELECT DISTINCT b FROM m;
  SELECT COUNT(*) FROM t x, t y WHERE x.b < y.b AND y.a < 4;
  SELECT STRAIGHT_JOIN COUNT(*) FROM m x, t y WHERE y.a BETWEEN 2 AND 5 AND x.b <> y.b;
  SELECT STRAIGHT_JOIN COUNT(*) FROM m x, m y WHERE y.c < x.a;
  CREATE TEMPORARY TABLE IF NOT EXISTS s AS SELECT CAST('12x' AS INT) AS a;
  CREATE TEMPORARY TABLE IF NOT EXISTS s AS SELECT CAST('12x' AS INT) AS a;
  DROP TEMPORARY TABLE s;
  UPDATE t SET c = c + 1 WHERE a < 10;
END
-- @end
CALL wide();
-- @prepare s1
SELECT a, b FROM t ORDER BY b;
-- @execute s1
-- @prepare s2
SELECT a, b FROM t WHERE a BETWEEN 10 AND 40 ORDER BY b;
-- @execute s2
-- @prepare s3
SELECT DISTINCT b FROM m;
-- @execute s3
-- @prepare s4
SELECT COUNT(*) FROM t x, t y WHERE x.b < y.b AND y.a < 4;
-- @execute s4
-- @prepare s5
SELECT STRAIGHT_JOIN COUNT(*) FROM m x, t y WHERE y.a BETWEEN 2 AND 5 AND x.b <> y.b;
-- @execute s5
-- @prepare s6
SELECT STRAIGHT_JOIN COUNT(*) FROM m x, m y WHERE y.c < x.a;
-- @execute s6
-- @prepare s7
SELECT CAST(? AS INT);
-- @execute s7 '12x'
-- @prepare s8
UPDATE t SET c = c + 1 WHERE a < 10;
-- @execute s8
-- Every way to lock a table.
SELECT HIGH_PRIORITY COUNT(*) FROM m;
SELECT COUNT(*) FROM m LOCK IN SHARE MODE;
UPDATE LOW_PRIORITY m SET c = 1 WHERE a = 1;
INSERT HIGH_PRIORITY INTO m VALUES (1000, 'x', 1);
-- A connection that ends.
-- @connection 2
-- @user o_gone
CALL wide();
-- @disconnect
-- @connection 1
SET sort_buffer_size = DEFAULT;
