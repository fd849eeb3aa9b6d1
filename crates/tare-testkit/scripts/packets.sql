-- Several statements in one packet: the built-in shows the rest of the packet with each.
CREATE TABLE t (a INT);
-- @block
INSERT INTO t VALUES (1); INSERT INTO t VALUES (2) ; INSERT INTO t VALUES (3)
-- @end
-- @block
SELECT 'a;b' /* ; */; BEGIN NOT ATOMIC INSERT INTO t VALUES (4); INSERT INTO t VALUES (5); END; SELECT COUNT(*) FROM t
-- @end
SELECT ';';
