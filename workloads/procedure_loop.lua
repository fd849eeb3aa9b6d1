-- A tight loop in a stored procedure, for sysbench 1.0: nearly all of its time is the overhead of a statement in a program,
-- which is what instruments of statements add to. Known as the worst case of the Performance Schema's `statement/sp/%`.
-- An event is one CALL; no table is read.
--
--    sysbench procedure_loop.lua prepare
--    sysbench procedure_loop.lua --loops=1000 --threads=10 run
--    sysbench procedure_loop.lua cleanup

sysbench.cmdline.options = {
   loops = {"Turns of the loop in a CALL; a turn is 4 instructions of the program", 1000},
}

-- Four instructions a turn: the condition, the two SETs and the jump back.
local PROCEDURE = [[CREATE PROCEDURE tight_loop(turns INT)
NO SQL
BEGIN
   DECLARE turn, sum BIGINT DEFAULT 0;
   WHILE turn < turns DO
      SET turn = turn + 1;
      SET sum = sum + turn;
   END WHILE;
END]]

local connection

local function connect()
   local driver = sysbench.sql.driver()
   return driver:connect(), driver
end

local function prepare()
   local connection = connect()
   connection:query("DROP PROCEDURE IF EXISTS tight_loop")
   connection:query(PROCEDURE)
end

local function cleanup()
   connect():query("DROP PROCEDURE IF EXISTS tight_loop")
end

sysbench.cmdline.commands = {prepare = {prepare}, cleanup = {cleanup}}

function thread_init() connection = connect() end
function thread_done() connection:disconnect() end
function event() connection:query("CALL tight_loop(" .. sysbench.opt.loops .. ")") end
