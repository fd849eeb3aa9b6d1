-- Prepared statements, by SQL and by the binary protocol.
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(40)) ENGINE=InnoDB;
PREPARE p FROM 'INSERT INTO t VALUES (?, ?)';
SET @a = 1, @b = 'one';
EXECUTE p USING @a, @b;
SET @a = 2;
EXECUTE p USING @a, @b;
-- @error 1062
EXECUTE p USING @a, @b;
DEALLOCATE PREPARE p;
-- @error 1243
EXECUTE p USING @a, @b;
-- @error 1064
PREPARE p FROM 'SELEKT';
EXECUTE IMMEDIATE 'SELECT * FROM t WHERE a = ?' USING @a;
-- @prepare s
SELECT * FROM t WHERE a = ?;
-- @execute s 1
-- @execute s 2
-- @execute s NULL
-- @close s
-- @prepare i
INSERT INTO t VALUES (?, ?);
-- @execute i 10, 'ten'
-- @execute i 11, NULL
-- @error 1062
-- @execute i 10, 'again'
-- @close i
-- @prepare n
SELECT COUNT(*) FROM t;
-- @execute n
-- @execute n
ALTER TABLE t ADD COLUMN c INT;
-- @execute n
-- @close n
-- @error 1146
-- @prepare f
SELECT * FROM missing;
