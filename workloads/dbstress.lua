-- dbSTRESS for sysbench 1.0: the schema and the read-only and read-write scenarios of Dimitri Kravtchuk's benchmark, after
-- what he published of it (http://dimitrik.free.fr, reports since 2007 such as db_STRESS_BMK_Part1.html; the kit itself is
-- not used here). A part of none of it is copied: where the reports are silent the choice is ours, marked "ours" below.
--
-- Published: objects lie in sections of zones; each has a history of 20 records, each of which refers to a status. A read is
-- two queries by an object's reference: SEL1 joins the object with its section and zone, SEL2 reads its history with the
-- statuses, in order. A write changes one record of the history and replaces another by a DELETE and an INSERT, so that the
-- data keeps its size. Read-only is reads; read-write adds a write to each read. No think time.
--
-- Ours: types and lengths of the columns, how many zones, sections and statuses there are, that the keys are clustered, that a
-- read is not wrapped in a transaction and a write is one, and that objects are drawn uniformly.
--
--    sysbench dbstress.lua --objects=100000 --threads=4 prepare
--    sysbench dbstress.lua --objects=100000 --scenario=rw --threads=64 run
--    sysbench dbstress.lua cleanup

sysbench.cmdline.options = {
   objects = {"Objects; each has --history records, about 4 KB together", 10000},
   history = {"Records in the history of an object", 20},
   scenario = {"What an event is: ro (SEL1 and SEL2), rw (both and a write), sel1, sel2, write", "ro"},
   mysql_storage_engine = {"Storage engine", "innodb"},
}

local ZONES, SECTIONS, STATUSES = 26, 676, 1000 -- ours

local uniform = sysbench.rand.uniform

local TABLES = {
   {"zone", "ref CHAR(2) NOT NULL, name VARCHAR(40) NOT NULL, PRIMARY KEY (ref)"},
   {"section", "ref CHAR(4) NOT NULL, ref_zone CHAR(2) NOT NULL, name VARCHAR(40) NOT NULL, PRIMARY KEY (ref)"},
   {"stat", "ref CHAR(4) NOT NULL, name VARCHAR(40) NOT NULL, code INT NOT NULL, PRIMARY KEY (ref)"},
   {"object", "ref CHAR(10) NOT NULL, ref_section CHAR(4) NOT NULL, name VARCHAR(40) NOT NULL, note VARCHAR(100) NOT NULL, "
      .. "create_date DATETIME NOT NULL, PRIMARY KEY (ref)"},
   {"history", "ref_object CHAR(10) NOT NULL, horder INT NOT NULL, ref_stat CHAR(4) NOT NULL, begin_date DATETIME NOT NULL, "
      .. "end_date DATETIME NOT NULL, note VARCHAR(100) NOT NULL, PRIMARY KEY (ref_object, horder)"},
}

local function zone_ref(number) return string.format("%02d", number) end
local function section_ref(number) return string.format("%04d", number) end
local function stat_ref(number) return string.format("%04d", number) end
local function object_ref(number) return string.format("%010d", number) end
local function note() return sysbench.rand.string(string.rep("@", 80)) end

-- ------------------------------------------------------------------------------------------------------------------
-- Data

local function connect()
   local driver = sysbench.sql.driver()
   return driver:connect(), driver
end

-- This sysbench ends with status 0 when a command fails in one of several threads: end the process ourselves.
local function or_die(command)
   return function()
      local done, problem = pcall(command)
      if done then return end
      if type(problem) == "table" then problem = string.format("SQL error %s", tostring(problem.sql_errno)) end
      io.stderr:write("dbstress: ", tostring(problem), "\n")
      os.exit(1)
   end
end

local function fill(connection, name, first, last, row)
   connection:bulk_insert_init("INSERT INTO " .. name .. " VALUES")
   for number = first, last do connection:bulk_insert_next("(" .. row(number) .. ")") end
   connection:bulk_insert_done()
end

local function load_small_tables(connection)
   fill(connection, "zone", 1, ZONES, function(z) return string.format("'%s','zone %d'", zone_ref(z), z) end)
   fill(connection, "section", 1, SECTIONS, function(s)
      return string.format("'%s','%s','section %d'", section_ref(s), zone_ref((s - 1) % ZONES + 1), s)
   end)
   fill(connection, "stat", 1, STATUSES, function(s) return string.format("'%s','status %d',%d", stat_ref(s), s, s) end)
end

local function load_objects(connection, first, last)
   fill(connection, "object", first, last, function(o)
      return string.format("'%s','%s','object %d','%s',NOW()", object_ref(o), section_ref(uniform(1, SECTIONS)), o, note())
   end)
   local each = sysbench.opt.history
   fill(connection, "history", 0, (last - first + 1) * each - 1, function(i)
      return string.format("'%s',%d,'%s',NOW(),NOW(),'%s'", object_ref(first + math.floor(i / each)), i % each + 1,
         stat_ref(uniform(1, STATUSES)), note())
   end)
end

local OBJECTS_AT_ONCE = 1000

local function prepare()
   local connection = connect()
   for _, definition in ipairs(TABLES) do
      connection:query(string.format("CREATE TABLE IF NOT EXISTS %s (%s) ENGINE=%s", definition[1], definition[2],
         sysbench.opt.mysql_storage_engine))
   end
   if sysbench.tid == 0 then load_small_tables(connection) end
   local threads, objects = sysbench.opt.threads, sysbench.opt.objects
   local parts, told = math.ceil(objects / OBJECTS_AT_ONCE), 0
   for part = sysbench.tid, parts - 1, threads do
      load_objects(connection, part * OBJECTS_AT_ONCE + 1, math.min((part + 1) * OBJECTS_AT_ONCE, objects))
      local percent = math.floor((part + 1) * 100 / parts)
      -- Threads are about as far as each other: one speaks for all.
      if sysbench.tid == 0 and percent >= told + 5 then
         told = percent
         print(string.format("loaded: %d%%", percent))
      end
   end
end

local function cleanup()
   local connection = connect()
   for _, definition in ipairs(TABLES) do connection:query("DROP TABLE IF EXISTS " .. definition[1]) end
end

sysbench.cmdline.commands = {
   prepare = {or_die(prepare), sysbench.cmdline.PARALLEL_COMMAND},
   cleanup = {or_die(cleanup)},
}

-- ------------------------------------------------------------------------------------------------------------------
-- Scenarios

-- A letter is a parameter: o an object's reference, h a record's place in its history, s a status, n a note.
local STATEMENTS = {
   sel1 = {"SELECT o.ref, o.name, o.note, o.create_date, s.ref, s.name, z.ref, z.name FROM object AS o "
      .. "JOIN section AS s ON s.ref = o.ref_section JOIN zone AS z ON z.ref = s.ref_zone WHERE o.ref = ?", "o"},
   sel2 = {"SELECT s.ref, s.name, s.code, h.horder, h.begin_date, h.end_date, h.note FROM history AS h "
      .. "JOIN stat AS s ON s.ref = h.ref_stat WHERE h.ref_object = ? ORDER BY h.horder", "o"},
   update = {"UPDATE history SET ref_stat = ?, note = ?, end_date = NOW() WHERE ref_object = ? AND horder = ?", "snoh"},
   delete = {"DELETE FROM history WHERE ref_object = ? AND horder = ?", "oh"},
   insert = {"INSERT INTO history (ref_object, horder, ref_stat, note, begin_date, end_date) VALUES (?, ?, ?, ?, NOW(), NOW())",
      "ohsn"},
   begin = {"BEGIN", ""},
   commit = {"COMMIT", ""},
}

local WRITE = {"begin", "update", "delete", "insert", "commit"}
local SCENARIOS = {
   sel1 = {"sel1"},
   sel2 = {"sel2"},
   ro = {"sel1", "sel2"},
   write = WRITE,
   rw = {"sel1", "sel2", unpack(WRITE)},
}

local connection, scenario
local prepared = {} -- name → {statement, parameters by place, letters}

local function prepare_statement(name)
   local text, letters = unpack(STATEMENTS[name])
   local statement, parameters = connection:prepare(text), {}
   for letter in letters:gmatch(".") do
      local kind, length = sysbench.sql.type.CHAR, 100
      if letter == "h" then kind, length = sysbench.sql.type.INT, nil end
      parameters[#parameters + 1] = statement:bind_create(kind, length)
   end
   if #parameters > 0 then statement:bind_param(unpack(parameters)) end
   return {statement, parameters, letters}
end

function thread_init()
   scenario = SCENARIOS[sysbench.opt.scenario]
   if not scenario then
      local names = {}
      for name in pairs(SCENARIOS) do names[#names + 1] = name end
      table.sort(names)
      error(string.format("--scenario is %s, and may be: %s", sysbench.opt.scenario, table.concat(names, ", ")), 0)
   end
   connection = connect()
   for _, name in ipairs(scenario) do prepared[name] = prepare_statement(name) end
end

function thread_done()
   for _, one in pairs(prepared) do one[1]:close() end
   connection:disconnect()
end

local values = {}
local DRAW = {
   s = function() return stat_ref(uniform(1, STATUSES)) end,
   n = note,
   o = function() return values.object end,
   h = function() return values.record end,
}

function event()
   values.object = object_ref(uniform(1, sysbench.opt.objects))
   for _, name in ipairs(scenario) do
      -- One record is changed, and another one replaced.
      if name == "update" or name == "delete" then values.record = uniform(1, sysbench.opt.history) end
      local statement, parameters, letters = unpack(prepared[name])
      for place, parameter in ipairs(parameters) do parameter:set(DRAW[letters:sub(place, place)]()) end
      statement:execute()
   end
end

-- A deadlock or a lock waited for too long: away with what was done; sysbench draws the event anew.
function sysbench.hooks.before_restart_event() connection:query("ROLLBACK") end
