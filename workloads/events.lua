-- Loads that are rich in one kind of event each, for sysbench 1.0: what prices of events are measured by, and two that they are
-- not measured by but checked with (`session`, `ddl`).
--
--    sysbench events.lua --tables=120 prepare
--    sysbench events.lua --scenario=sort --threads=2 run
--    sysbench events.lua cleanup

sysbench.cmdline.options = {
   tables = {"Tables", 120},
   rows = {"Rows of each", 200},
   scenario = {"What an event is: connect, temporary, sort, procedure, tables, session, ddl", "connect"},
}

local driver, connection, number

local uniform = sysbench.rand.uniform
local PROCEDURE = [[CREATE PROCEDURE look_around(turns INT)
READS SQL DATA
BEGIN
   DECLARE turn, found INT DEFAULT 0;
   WHILE turn < turns DO
      SET turn = turn + 1;
      IF turn % 2 = 0 THEN
         SELECT k INTO found FROM events1 WHERE id = turn;
      END IF;
   END WHILE;
END]]

local function prepare()
   local own = sysbench.sql.driver():connect()
   for table = 1, sysbench.opt.tables do
      own:query("DROP TABLE IF EXISTS events" .. table)
      own:query("CREATE TABLE events" .. table .. " (id INT PRIMARY KEY, k INT NOT NULL, pad CHAR(40) NOT NULL) ENGINE=InnoDB")
      own:bulk_insert_init("INSERT INTO events" .. table .. " VALUES")
      for row = 1, sysbench.opt.rows do
         own:bulk_insert_next(string.format("(%d,%d,'%s')", row, row % 20, sysbench.rand.string(string.rep("@", 40))))
      end
      own:bulk_insert_done()
   end
   own:query("DROP PROCEDURE IF EXISTS look_around")
   own:query(PROCEDURE)
end

local function cleanup()
   local own = sysbench.sql.driver():connect()
   for table = 1, sysbench.opt.tables do own:query("DROP TABLE IF EXISTS events" .. table) end
   own:query("DROP PROCEDURE IF EXISTS look_around")
end

sysbench.cmdline.commands = {prepare = {prepare}, cleanup = {cleanup}}

local function any_table() return "events" .. uniform(1, sysbench.opt.tables) end
local function any_row() return uniform(1, sysbench.opt.rows) end

local SCENARIOS = {
   connect = function()
      local own = driver:connect()
      own:query("SELECT 1")
      own:disconnect()
   end,
   temporary = function() connection:query("SELECT k, COUNT(*), MAX(pad) FROM events1 GROUP BY k") end,
   sort = function() connection:query("SELECT id, pad FROM events1 ORDER BY pad") end,
   procedure = function() connection:query("CALL look_around(100)") end,
   tables = function() connection:query("SELECT pad FROM " .. any_table() .. " WHERE id = " .. any_row()) end,
   session = function()
      local own = driver:connect()
      own:query("SET SESSION sql_mode = 'ANSI'")
      own:query("START TRANSACTION")
      for _ = 1, 3 do own:query("SELECT pad FROM events1 WHERE id = " .. any_row()) end
      own:query("COMMIT")
      own:disconnect()
   end,
   ddl = function()
      local own = "made" .. number
      connection:query("CREATE TABLE " .. own .. " (id INT PRIMARY KEY, k INT) ENGINE=InnoDB")
      connection:query("ALTER TABLE " .. own .. " ADD KEY (k)")
      connection:query("INSERT INTO " .. own .. " VALUES (1, 1), (2, 2)")
      connection:query("DROP TABLE " .. own)
   end,
}

local act

function thread_init(thread)
   driver, number = sysbench.sql.driver(), thread
   connection = driver:connect()
   act = SCENARIOS[sysbench.opt.scenario] or error("no scenario " .. sysbench.opt.scenario)
   -- A driver that was killed may have left it.
   if sysbench.opt.scenario == "ddl" then connection:query("DROP TABLE IF EXISTS made" .. number) end
end

function thread_done()
   if sysbench.opt.scenario == "ddl" then connection:query("DROP TABLE IF EXISTS made" .. number) end
   connection:disconnect()
end

function event() act() end
