-- Sorts with merges and temporary files; a result of some hundred kilobytes.
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(200), c INT) ENGINE=InnoDB;
INSERT INTO t SELECT seq, REPEAT(MD5(seq), 5), seq % 97 FROM seq_1_to_500;
SET sort_buffer_size = 8192;
SELECT a, b FROM t ORDER BY b;
SELECT a, b FROM t ORDER BY c, b DESC LIMIT 10;
SELECT a, b FROM t WHERE a BETWEEN 10 AND 400 ORDER BY b;
SELECT c, GROUP_CONCAT(a) FROM t GROUP BY c;
SET tmp_memory_table_size = 16384;
SELECT b, COUNT(*) FROM t GROUP BY b ORDER BY 2, 1;
SELECT * FROM t x JOIN t y ON x.b = y.b WHERE x.a < 20;
SELECT x.a, x.b, y.b FROM t x, t y WHERE y.a < 4;
SET sort_buffer_size = DEFAULT, tmp_memory_table_size = DEFAULT;
