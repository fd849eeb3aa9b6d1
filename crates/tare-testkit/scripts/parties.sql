-- Three accounts, two of one user's connections at once, some of them gone at the end.
-- @user o_ann
CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b VARCHAR(100)) ENGINE=InnoDB;
CREATE TABLE c (a INT NOT NULL, b VARCHAR(100) NOT NULL) ENGINE=CSV;
CREATE PROCEDURE add_one() INSERT INTO t (b) VALUES ('procedure');
INSERT INTO t (b) VALUES ('a'), ('b'), ('c');
SET @kept = REPEAT('k', 50000);
-- @connection 2
-- @user o_ann
-- @repeat 3
INSERT INTO c VALUES (1, 'one');
SELECT COUNT(*) FROM c;
CALL add_one();
DO SLEEP(0.01);
SET @gone = REPEAT('g', 20000);
-- @error 1146
SELECT * FROM missing;
-- @connection 3
-- @user o_bob
BEGIN;
UPDATE t SET b = 'changed' WHERE a = 1;
ROLLBACK;
START TRANSACTION READ ONLY;
SELECT * FROM t ORDER BY b;
COMMIT;
-- @connection 4
-- @user o_eve
CALL add_one();
SET @small = 'x';
-- @connection 2
-- @disconnect
-- @connection 4
-- @disconnect
-- @connection 3
DO SLEEP(0.01);
SELECT COUNT(*) FROM t;
-- @connection 1
SELECT MAX(a) FROM t;
