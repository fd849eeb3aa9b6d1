-- TPC-C for sysbench 1.0: the schema, the five transactions and the consistency conditions of the published specification
-- (TPC Benchmark C, Standard Specification, Revision 5.11, February 2010). "Clause" below means a clause of it.
--
--    sysbench tpcc.lua --warehouses=10 --threads=4 prepare     makes and fills the tables
--    sysbench tpcc.lua --warehouses=10 --threads=20 run        drives them; prints `notpm: ...` at the end
--    sysbench tpcc.lua --warehouses=10 check                   the consistency conditions; fails if one does not hold
--    sysbench tpcc.lua cleanup                                 drops the tables
--
--    sysbench tpcc.lua --terminals=1 ... run                   with the keying and think times of clause 5.2.5, or a share of them
--
-- What is not to the specification, so that the figure is no tpmC: without --terminals there are no keying and no think times (a
-- connection goes on at once); the warehouse is drawn anew for each transaction, so that all of them are used however few
-- connections there are; Delivery is done at once instead of queued; response times are reported, not required. The order
-- of the five transactions is drawn by weight. Statements are sent as text: this sysbench cannot read the rows of a prepared
-- one. With --scale below 1 the tables are smaller than clause 1.2 demands: for tests of this script.

local ffi = require("ffi")

sysbench.cmdline.options = {
   warehouses = {"Warehouses: about 100 MB each", 1},
   scale = {"Size of a warehouse as a share of the specification's. Below 1 it is NOT to the specification: for tests only", "1"},
   foreign_keys = {"Declare the foreign keys of clause 1.3", true},
   mysql_storage_engine = {"Storage engine", "innodb"},
   terminals = {"Keying and think times, as a share of those of clause 5.2.5; 0: none", "0"},
}

-- ------------------------------------------------------------------------------------------------------------------
-- Sizes (clauses 1.2 and 4.3.3), at the scale given.

local DISTRICTS = 10
local LAST_NAMES_SPOKEN = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"} -- 4.3.2.3

local size -- filled by `sized`, when the options are known

local function sized()
   if size then return end
   local scale = tonumber(sysbench.opt.scale)
   if not scale or scale <= 0 or scale > 1 then
      error("--scale is " .. sysbench.opt.scale .. ", and must be above 0 and at most 1", 0)
   end
   if sysbench.opt.warehouses < 1 then error("--warehouses must be at least 1", 0) end
   local customers = math.max(30, math.floor(3000 * scale))
   size = {
      warehouses = sysbench.opt.warehouses,
      items = math.max(100, math.floor(100000 * scale)),
      customers = customers, -- of a district; as many orders, one each
      last_names = math.floor(customers / 3),
      undelivered = math.floor(customers * 0.3),
   }
   size.delivered = size.customers - size.undelivered
end

-- ------------------------------------------------------------------------------------------------------------------
-- Random values (clauses 2.1.5 and 4.3.2).

local uniform = sysbench.rand.uniform

-- Constants of NURand; that of last names differs between load and run by a number clause 2.1.6.1 allows (101).
local C_LAST_LOAD, C_LAST_RUN, C_CUSTOMER, C_ITEM = 123, 224, 259, 7911

local bit = require("bit")

local function nurand(a, c, low, high)
   return (bit.bor(uniform(0, a), uniform(low, high)) + c) % (high - low + 1) + low
end

local function random_customer() return nurand(1023, C_CUSTOMER, 1, size.customers) end
local function random_item() return nurand(8191, C_ITEM, 1, size.items) end

local function last_name(number)
   local spoken = LAST_NAMES_SPOKEN
   return spoken[math.floor(number / 100) % 10 + 1] .. spoken[math.floor(number / 10) % 10 + 1] .. spoken[number % 10 + 1]
end

local function random_last_name(constant) return last_name(nurand(255, constant, 0, size.last_names - 1)) end

-- Letters and digits are cut out of a long random text, two pieces a string: drawing each of some 10^8 takes too long.
local POOL_LENGTH = 8192
local pool

local function random_text(shortest, longest)
   if not pool then
      local letters, characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", {}
      for i = 1, POOL_LENGTH do
         local at = uniform(1, #letters)
         characters[i] = letters:sub(at, at)
      end
      pool = table.concat(characters)
   end
   local length = uniform(shortest, longest or shortest)
   local first = math.floor(length / 2)
   local a, b = uniform(1, POOL_LENGTH - length), uniform(1, POOL_LENGTH - length)
   return pool:sub(a, a + first - 1) .. pool:sub(b, b + length - first - 1)
end

local function random_digits(length)
   return string.format("%0" .. length .. "d", uniform(0, 10 ^ math.min(length, 9) - 1))
end

-- Clauses 4.3.3.1 (I_DATA, S_DATA): in 10% of them is the word, somewhere.
local function random_data()
   local text = random_text(26, 50)
   if uniform(1, 10) > 1 then return text end
   local at = uniform(0, #text - 8)
   return text:sub(1, at) .. "ORIGINAL" .. text:sub(at + 9)
end

local function random_letter() return string.char(uniform(65, 90)) end
local function random_zip() return random_digits(4) .. "11111" end
local function random_address()
   return string.format("'%s','%s','%s','%s','%s'", random_text(10, 20), random_text(10, 20), random_text(10, 20),
      random_letter() .. random_letter(), random_zip())
end

local function money(cents) return string.format("%d.%02d", math.floor(cents / 100), cents % 100) end
local function share(highest) return string.format("%.4f", uniform(0, highest * 10000) / 10000) end

local function permutation(n)
   local list = {}
   for i = 1, n do list[i] = i end
   for i = n, 2, -1 do
      local j = uniform(1, i)
      list[i], list[j] = list[j], list[i]
   end
   return list
end

-- ------------------------------------------------------------------------------------------------------------------
-- What threads tell each other. Each has a Lua state of its own; a line of numbers for each lies in memory of the process,
-- whose address the first state leaves in the environment.

ffi.cdef [[
void *calloc(size_t count, size_t size);
int setenv(const char *name, const char *value, int overwrite);
typedef struct { long seconds, nanoseconds; } tpcc_time;
int clock_gettime(int clock, tpcc_time *time);
]]

local MOST_THREADS, LINE = 4096, 32
local lines -- lines[thread * LINE + column]

do
   local name = "TARE_TPCC_LINES"
   local known = os.getenv(name)
   if not known then
      local memory = ffi.C.calloc(MOST_THREADS * LINE, 8)
      known = string.format("%.0f", tonumber(ffi.cast("uintptr_t", memory)))
      ffi.C.setenv(name, known, 1)
   end
   lines = ffi.cast("double *", ffi.cast("uintptr_t", tonumber(known)))
end

local function my_line()
   if sysbench.tid >= MOST_THREADS then error("at most " .. MOST_THREADS .. " threads", 0) end
   return lines + sysbench.tid * LINE
end

local function total(column)
   local sum = 0
   for thread = 0, math.min(sysbench.opt.threads, MOST_THREADS) - 1 do sum = sum + lines[thread * LINE + column] end
   return sum
end

local time = ffi.new("tpcc_time")
local function now()
   ffi.C.clock_gettime(1, time) -- CLOCK_MONOTONIC
   return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end

-- ------------------------------------------------------------------------------------------------------------------
-- Tables (clause 1.3). Not of the specification: the index on customers' names, that on orders by customer (clause 1.4
-- allows both), and the column `h_id`, because InnoDB makes a hidden one for a table without a key.

local ADDRESS = [[%s_street_1 VARCHAR(20) NOT NULL, %s_street_2 VARCHAR(20) NOT NULL, %s_city VARCHAR(20) NOT NULL,
   %s_state CHAR(2) NOT NULL, %s_zip CHAR(9) NOT NULL]]
local function address_columns(prefix) return (ADDRESS:gsub("%%s", prefix)) end

local S_DIST = {}
for d = 1, DISTRICTS do S_DIST[d] = string.format("s_dist_%02d", d) end

local TABLES = {
   {"warehouse", "w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, " .. address_columns("w") .. [[,
      w_tax DECIMAL(4,4) NOT NULL, w_ytd DECIMAL(12,2) NOT NULL,
      PRIMARY KEY (w_id)]]},
   {"district", [[d_id TINYINT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, ]] .. address_columns("d") .. [[,
      d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL, d_next_o_id INT NOT NULL,
      PRIMARY KEY (d_w_id, d_id)]],
      "FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)"},
   {"customer", [[c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16) NOT NULL,
      c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, ]] .. address_columns("c") .. [[, c_phone CHAR(16) NOT NULL,
      c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL, c_credit_lim DECIMAL(12,2) NOT NULL,
      c_discount DECIMAL(4,4) NOT NULL, c_balance DECIMAL(12,2) NOT NULL, c_ytd_payment DECIMAL(12,2) NOT NULL,
      c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL, c_data VARCHAR(500) NOT NULL,
      PRIMARY KEY (c_w_id, c_d_id, c_id), KEY by_name (c_w_id, c_d_id, c_last, c_first)]],
      "FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)"},
   {"history", [[h_id BIGINT NOT NULL AUTO_INCREMENT, h_c_id INT NOT NULL, h_c_d_id TINYINT NOT NULL, h_c_w_id INT NOT NULL,
      h_d_id TINYINT NOT NULL, h_w_id INT NOT NULL, h_date DATETIME NOT NULL, h_amount DECIMAL(6,2) NOT NULL,
      h_data VARCHAR(24) NOT NULL,
      PRIMARY KEY (h_id)]],
      [[FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id),
      FOREIGN KEY (h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)]]},
   {"orders", [[o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id INT NOT NULL, o_c_id INT NOT NULL,
      o_entry_d DATETIME NOT NULL, o_carrier_id TINYINT, o_ol_cnt TINYINT NOT NULL, o_all_local TINYINT NOT NULL,
      PRIMARY KEY (o_w_id, o_d_id, o_id), KEY by_customer (o_w_id, o_d_id, o_c_id, o_id)]],
      "FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)"},
   {"new_order", [[no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id INT NOT NULL,
      PRIMARY KEY (no_w_id, no_d_id, no_o_id)]],
      "FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)"},
   {"item", [[i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5,2) NOT NULL,
      i_data VARCHAR(50) NOT NULL,
      PRIMARY KEY (i_id)]]},
   {"stock", "s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT NOT NULL, "
      .. table.concat(S_DIST, " CHAR(24) NOT NULL, ") .. [[ CHAR(24) NOT NULL,
      s_ytd INT NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL, s_data VARCHAR(50) NOT NULL,
      PRIMARY KEY (s_w_id, s_i_id)]],
      [[FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id),
      FOREIGN KEY (s_i_id) REFERENCES item (i_id)]]},
   {"order_line", [[ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id INT NOT NULL, ol_number TINYINT NOT NULL,
      ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, ol_delivery_d DATETIME, ol_quantity TINYINT NOT NULL,
      ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL,
      PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)]],
      [[FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id),
      FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id)]]},
}

local function create_tables(connection)
   for _, definition in ipairs(TABLES) do
      local name, columns, foreign_keys = unpack(definition)
      if sysbench.opt.foreign_keys and foreign_keys then columns = columns .. ", " .. foreign_keys end
      connection:query(string.format("CREATE TABLE IF NOT EXISTS %s (%s) ENGINE=%s", name, columns,
         sysbench.opt.mysql_storage_engine))
   end
end

-- ------------------------------------------------------------------------------------------------------------------
-- Initial population (clause 4.3.3.1), cut into parts that threads do side by side.

local function fill(connection, table_and_columns, rows)
   connection:bulk_insert_init("INSERT INTO " .. table_and_columns .. " VALUES")
   for row in rows do connection:bulk_insert_next("(" .. row .. ")") end
   connection:bulk_insert_done()
end

local function counted(first, last, row)
   return coroutine.wrap(function()
      for number = first, last do coroutine.yield(row(number)) end
   end)
end

local function load_items(connection)
   fill(connection, "item", counted(1, size.items, function(i)
      return string.format("%d,%d,'%s',%s,'%s'", i, uniform(1, 10000), random_text(14, 24), money(uniform(100, 10000)),
         random_data())
   end))
end

local function load_warehouse(connection, w)
   fill(connection, "warehouse", counted(w, w, function()
      return string.format("%d,'%s',%s,%s,%s", w, random_text(6, 10), random_address(), share(0.2),
         money(DISTRICTS * size.customers * 1000))
   end))
   fill(connection, "district", counted(1, DISTRICTS, function(d)
      return string.format("%d,%d,'%s',%s,%s,%s,%d", d, w, random_text(6, 10), random_address(), share(0.2),
         money(size.customers * 1000), size.customers + 1)
   end))
end

-- A tenth of a warehouse's stock.
local function load_stock(connection, w, tenth)
   local first, last = math.floor(size.items * (tenth - 1) / 10) + 1, math.floor(size.items * tenth / 10)
   fill(connection, "stock", counted(first, last, function(i)
      local dist = {}
      for d = 1, DISTRICTS do dist[d] = random_text(24) end
      return string.format("%d,%d,%d,'%s',0,0,0,'%s'", i, w, uniform(10, 100), table.concat(dist, "','"), random_data())
   end))
end

local function load_customers(connection, w, d)
   fill(connection, "customer", counted(1, size.customers, function(c)
      local last = c <= size.last_names and last_name(c - 1) or random_last_name(C_LAST_LOAD)
      return string.format("%d,%d,%d,'%s','OE','%s',%s,'%s',NOW(),'%s',50000.00,%s,-10.00,10.00,1,0,'%s'", c, d, w,
         random_text(8, 16), last, random_address(), random_digits(8) .. random_digits(8),
         uniform(1, 10) == 1 and "BC" or "GC", share(0.5), random_text(300, 500))
   end))
   fill(connection, "history (h_c_id,h_c_d_id,h_c_w_id,h_d_id,h_w_id,h_date,h_amount,h_data)",
      counted(1, size.customers, function(c)
         return string.format("%d,%d,%d,%d,%d,NOW(),10.00,'%s'", c, d, w, d, w, random_text(12, 24))
      end))
end

local function load_orders(connection, w, d)
   local customers, line_counts = permutation(size.customers), {}
   fill(connection, "orders", counted(1, size.customers, function(o)
      line_counts[o] = uniform(5, 15)
      return string.format("%d,%d,%d,%d,NOW(),%s,%d,1", o, d, w, customers[o],
         o <= size.delivered and uniform(1, 10) or "NULL", line_counts[o])
   end))
   fill(connection, "new_order", counted(size.delivered + 1, size.customers, function(o)
      return string.format("%d,%d,%d", o, d, w)
   end))
   fill(connection, "order_line", coroutine.wrap(function()
      for o = 1, size.customers do
         for line = 1, line_counts[o] do
            local delivered = o <= size.delivered
            coroutine.yield(string.format("%d,%d,%d,%d,%d,%d,%s,5,%s,'%s'", o, d, w, line, uniform(1, size.items), w,
               delivered and "NOW()" or "NULL", delivered and "0.00" or money(uniform(1, 999999)), random_text(24)))
         end
      end
   end))
end

local function parts_to_load()
   local parts = {{load_items}}
   for w = 1, size.warehouses do
      parts[#parts + 1] = {load_warehouse, w}
      for d = 1, DISTRICTS do
         parts[#parts + 1] = {load_stock, w, d}
         parts[#parts + 1] = {load_customers, w, d}
         parts[#parts + 1] = {load_orders, w, d}
      end
   end
   return parts
end

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
      io.stderr:write("tpcc: ", tostring(problem), "\n")
      os.exit(1)
   end
end

local PARTS_DONE = 0 -- column

local function prepare()
   sized()
   local connection = connect()
   -- With unique_checks = 0, too, InnoDB locks a table as a whole for the first rows in it, and threads that begin with the same
   -- table may deadlock.
   connection:query("SET foreign_key_checks = 0")
   create_tables(connection)
   local mine, parts = my_line(), parts_to_load()
   for number = sysbench.tid + 1, #parts, sysbench.opt.threads do
      local part, w, d = unpack(parts[number])
      part(connection, w, d)
      mine[PARTS_DONE] = mine[PARTS_DONE] + 1
      local done = total(PARTS_DONE)
      local percent, before = math.floor(done * 100 / #parts), math.floor((done - 1) * 100 / #parts)
      if percent > before then print(string.format("loaded: %d%% (%d of %d parts)", percent, done, #parts)) end
   end
end

local function cleanup()
   local connection = connect()
   connection:query("SET foreign_key_checks = 0")
   for _, definition in ipairs(TABLES) do connection:query("DROP TABLE IF EXISTS " .. definition[1]) end
end

-- ------------------------------------------------------------------------------------------------------------------
-- The five transactions (clauses 2.4 to 2.8). Each is drawn first and then done, so that it can be done again as it was
-- when the server ends it (a deadlock, a lock that was waited for too long).

local connection -- of this thread

local function q(text, ...) return connection:query(text:format(...)) end
local function row(text, ...) return connection:query_row(text:format(...)) end

local function rows(text, ...)
   local result = connection:query(text:format(...))
   local list = {}
   for i = 1, result.nrows do list[i] = result:fetch_row() end
   return list
end

local function other_warehouse(w)
   if size.warehouses == 1 then return w end
   local other = uniform(1, size.warehouses - 1)
   return other < w and other or other + 1
end

-- By number, or in 60% of the cases by last name (clauses 2.5.1.2, 2.6.1.2).
local function draw_customer(t)
   if uniform(1, 100) <= 60 then t.last = random_last_name(C_LAST_RUN) else t.c = random_customer() end
end

-- Of those with the name: the one in the middle, ordered by first name, rounded up (clause 2.5.2.2).
local function customer_number(t)
   if t.c then return t.c end
   local found = rows("SELECT c_id FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first",
      t.c_w, t.c_d, t.last)
   return tonumber(found[math.ceil(#found / 2)][1])
end

local function draw_new_order()
   local t = {w = uniform(1, size.warehouses), d = uniform(1, DISTRICTS), c = random_customer(), all_local = 1, lines = {}}
   for line = 1, uniform(5, 15) do
      local remote = size.warehouses > 1 and uniform(1, 100) == 1
      if remote then t.all_local = 0 end
      t.lines[line] = {
         item = random_item(),
         warehouse = remote and other_warehouse(t.w) or t.w,
         remote = remote and 1 or 0,
         quantity = uniform(1, 10),
      }
   end
   -- 1% name an item that does not exist (clause 2.4.1.4).
   if uniform(1, 100) == 1 then t.lines[#t.lines].item = size.items + 1 end
   return t
end

-- True, or false when it was rolled back as clause 2.4.2.3 wants it; such a New-Order counts as well.
local function do_new_order(t)
   q("BEGIN")
   local w_tax = row("SELECT w_tax FROM warehouse WHERE w_id = %d", t.w)
   local d_tax, o = row("SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d FOR UPDATE", t.w, t.d)
   q("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = %d AND d_id = %d", t.w, t.d)
   local discount = row("SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d",
      t.w, t.d, t.c)
   q("INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) "
      .. "VALUES (%s, %d, %d, %d, NOW(), %d, %d)", o, t.d, t.w, t.c, #t.lines, t.all_local)
   q("INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (%s, %d, %d)", o, t.d, t.w)
   local cents = 0
   for number, line in ipairs(t.lines) do
      local item = rows("SELECT i_price, i_name, i_data FROM item WHERE i_id = %d", line.item)[1]
      if not item then
         q("ROLLBACK")
         return false
      end
      local in_stock, dist_info, s_data = row("SELECT s_quantity, %s, s_data FROM stock WHERE s_w_id = %d AND s_i_id = %d "
         .. "FOR UPDATE", S_DIST[t.d], line.warehouse, line.item)
      local left = tonumber(in_stock) - line.quantity
      if left < 10 then left = left + 91 end
      q("UPDATE stock SET s_quantity = %d, s_ytd = s_ytd + %d, s_order_cnt = s_order_cnt + 1, "
         .. "s_remote_cnt = s_remote_cnt + %d WHERE s_w_id = %d AND s_i_id = %d",
         left, line.quantity, line.remote, line.warehouse, line.item)
      local amount = math.floor(tonumber(item[1]) * 100 + 0.5) * line.quantity
      q("INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, "
         .. "ol_dist_info) VALUES (%s, %d, %d, %d, %d, %d, %d, %s, '%s')",
         o, t.d, t.w, number, line.item, line.warehouse, line.quantity, money(amount), dist_info)
      line.generic = item[3]:find("ORIGINAL", 1, true) and s_data:find("ORIGINAL", 1, true) and "B" or "G"
      cents = cents + amount
   end
   t.total = cents / 100 * (1 - tonumber(discount)) * (1 + tonumber(w_tax) + tonumber(d_tax))
   q("COMMIT")
   return true
end

local function draw_payment()
   local t = {w = uniform(1, size.warehouses), d = uniform(1, DISTRICTS), amount = money(uniform(100, 500000))}
   t.c_w, t.c_d = t.w, t.d
   -- 15% pay for a customer of another warehouse (clause 2.5.1.2).
   if uniform(1, 100) > 85 then t.c_w, t.c_d = other_warehouse(t.w), uniform(1, DISTRICTS) end
   draw_customer(t)
   return t
end

local function do_payment(t)
   q("BEGIN")
   q("UPDATE warehouse SET w_ytd = w_ytd + %s WHERE w_id = %d", t.amount, t.w)
   local w_name = row("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = %d", t.w)
   q("UPDATE district SET d_ytd = d_ytd + %s WHERE d_w_id = %d AND d_id = %d", t.amount, t.w, t.d)
   local d_name = row("SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district "
      .. "WHERE d_w_id = %d AND d_id = %d", t.w, t.d)
   local c = customer_number(t)
   local where = string.format("WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", t.c_w, t.c_d, c)
   local credit = row("SELECT c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, "
      .. "c_since, c_credit_lim, c_discount, c_balance FROM customer %s FOR UPDATE", where)
   -- Those with bad credit get the payment written down in front of what is known of them (clause 2.5.2.2).
   local data = ""
   if credit == "BC" then
      data = string.format(", c_data = LEFT(CONCAT('%d %d %d %d %d %s ', c_data), 500)", c, t.c_d, t.c_w, t.d, t.w, t.amount)
   end
   q("UPDATE customer SET c_balance = c_balance - %s, c_ytd_payment = c_ytd_payment + %s, "
      .. "c_payment_cnt = c_payment_cnt + 1%s %s", t.amount, t.amount, data, where)
   if data ~= "" then row("SELECT LEFT(c_data, 200) FROM customer %s", where) end
   q("INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) "
      .. "VALUES (%d, %d, %d, %d, %d, NOW(), %s, '%s    %s')", c, t.c_d, t.c_w, t.d, t.w, t.amount, w_name, d_name)
   q("COMMIT")
   return true
end

local function draw_order_status()
   local t = {c_w = uniform(1, size.warehouses), c_d = uniform(1, DISTRICTS)}
   draw_customer(t)
   return t
end

local function do_order_status(t)
   q("BEGIN")
   local c = customer_number(t)
   row("SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d",
      t.c_w, t.c_d, c)
   local o = row("SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d "
      .. "ORDER BY o_id DESC LIMIT 1", t.c_w, t.c_d, c)
   rows("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line "
      .. "WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s", t.c_w, t.c_d, o)
   q("COMMIT")
   return true
end

local function draw_delivery() return {w = uniform(1, size.warehouses), carrier = uniform(1, 10)} end

-- True, or false when a district had nothing to deliver (clause 2.7.4.2 wants that counted).
local function do_delivery(t)
   local all = true
   q("BEGIN")
   for d = 1, DISTRICTS do
      local oldest = rows("SELECT no_o_id FROM new_order WHERE no_w_id = %d AND no_d_id = %d ORDER BY no_o_id LIMIT 1 "
         .. "FOR UPDATE", t.w, d)[1]
      if oldest then
         local o = oldest[1]
         q("DELETE FROM new_order WHERE no_w_id = %d AND no_d_id = %d AND no_o_id = %s", t.w, d, o)
         -- In this order: an order newer than our snapshot is not seen by a SELECT before we have changed it.
         q("UPDATE orders SET o_carrier_id = %d WHERE o_w_id = %d AND o_d_id = %d AND o_id = %s", t.carrier, t.w, d, o)
         local c = row("SELECT o_c_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_id = %s", t.w, d, o)
         q("UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s", t.w, d, o)
         local amount = row("SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s",
            t.w, d, o)
         q("UPDATE customer SET c_balance = c_balance + %s, c_delivery_cnt = c_delivery_cnt + 1 "
            .. "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %s", amount, t.w, d, c)
      else
         all = false
      end
   end
   q("COMMIT")
   return all
end

local function draw_stock_level()
   return {w = uniform(1, size.warehouses), d = uniform(1, DISTRICTS), threshold = uniform(10, 20)}
end

local function do_stock_level(t)
   q("BEGIN")
   local next_order = row("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", t.w, t.d)
   row("SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id "
      .. "WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id < %s AND ol_o_id >= %s - 20 AND s_quantity < %d",
      t.w, t.d, next_order, next_order, t.threshold)
   q("COMMIT")
   return true
end

-- In the standard mix (clause 5.2.3); `no` says what it means that one of them did not go through, `keying` and `thinking` are
-- seconds at a terminal (clause 5.2.5.7): the first all the same, the second on average.
local TRANSACTIONS = {
   {name = "New-Order", weight = 45, draw = draw_new_order, act = do_new_order, keying = 18, thinking = 12, no = "rolled back as wanted"},
   {name = "Payment", weight = 43, draw = draw_payment, act = do_payment, keying = 3, thinking = 12},
   {name = "Order-Status", weight = 4, draw = draw_order_status, act = do_order_status, keying = 2, thinking = 10},
   {name = "Delivery", weight = 4, draw = draw_delivery, act = do_delivery, keying = 2, thinking = 5, no = "with a district that had none"},
   {name = "Stock-Level", weight = 4, draw = draw_stock_level, act = do_stock_level, keying = 2, thinking = 5},
}

-- Columns of a thread's line while it runs.
local BEGAN, ENDED = 1, 2
local function column(transaction, what) return 2 + transaction * 5 + what end
local DONE, NOT_THROUGH, AGAIN, SECONDS, SLOWEST = 0, 1, 2, 3, 4

local mine, pending, drawn

local function draw()
   local dice = uniform(1, 100)
   for number, transaction in ipairs(TRANSACTIONS) do
      dice = dice - transaction.weight
      if dice <= 0 then return number end
   end
end

local function choose()
   pending = draw()
   drawn = TRANSACTIONS[pending].draw()
end

ffi.cdef[[int tpcc_sleep(unsigned int microseconds) __asm__("usleep");]]

-- Waits, but not beyond the end of the load.
local function wait(thread, seconds)
   local till = now() + seconds
   local left = seconds
   while left > 0 and ffi.C.sb_more_events(thread) do
      ffi.C.tpcc_sleep(math.min(left, 0.05) * 1e6)
      left = till - now()
   end
end

-- At a terminal a transaction is chosen, keyed in, run, and thought about. Only the run is latency.
local function at_terminal(share)
   return function(thread)
      while ffi.C.sb_more_events(thread) do
         choose()
         local transaction = TRANSACTIONS[pending]
         wait(thread, transaction.keying * share)
         if not ffi.C.sb_more_events(thread) then return end
         ffi.C.sb_event_start(thread)
         local done, problem
         repeat
            done, problem = pcall(event, thread)
            local again = type(problem) == "table" and problem.errcode == sysbench.error.RESTART_EVENT
            if not done and not again then error(problem, 0) end
            if not done then sysbench.hooks.before_restart_event(problem) end
         until done
         ffi.C.sb_event_stop(thread)
         -- Clause 5.2.5.4: distributed exponentially, ten times the mean at most.
         local thinking = math.min(-math.log(1 - sysbench.rand.uniform_double()), 10) * transaction.thinking
         wait(thread, thinking * share)
      end
   end
end

function thread_init()
   sized()
   connection = connect()
   mine = my_line()
   local share = tonumber(sysbench.opt.terminals)
   if not share or share < 0 then error("--terminals is " .. sysbench.opt.terminals .. ", and must be 0 or more", 0) end
   if share > 0 then thread_run = at_terminal(share) end
end

function thread_done()
   connection:disconnect()
end

function event()
   local began = now()
   if mine[BEGAN] == 0 then mine[BEGAN] = began end
   if not pending then choose() end
   local done, through = pcall(TRANSACTIONS[pending].act, drawn)
   if not done then
      -- Others must not wait for what a connection holds that is given up.
      local again = type(through) == "table" and through.errcode == sysbench.error.RESTART_EVENT
      if not again then connection:disconnect() end
      error(through, 0)
   end
   local ended = now()
   local function add(what, number) mine[column(pending, what)] = mine[column(pending, what)] + number end
   add(DONE, 1)
   if not through then add(NOT_THROUGH, 1) end
   add(SECONDS, ended - began)
   mine[column(pending, SLOWEST)] = math.max(mine[column(pending, SLOWEST)], ended - began)
   mine[ENDED] = ended
   pending = nil
end

-- A deadlock or a lock waited for too long: away with what was done, and once more, the same.
function sysbench.hooks.before_restart_event()
   local place = column(pending, AGAIN)
   mine[place] = mine[place] + 1
   connection:query("ROLLBACK")
end

function done()
   local began, ended = math.huge, 0
   local slowest = {}
   for thread = 0, math.min(sysbench.opt.threads, MOST_THREADS) - 1 do
      local line = lines + thread * LINE
      if line[BEGAN] > 0 then began = math.min(began, line[BEGAN]) end
      ended = math.max(ended, line[ENDED])
      for number in ipairs(TRANSACTIONS) do
         slowest[number] = math.max(slowest[number] or 0, line[column(number, SLOWEST)])
      end
   end
   local all, again = 0, 0
   for number in ipairs(TRANSACTIONS) do
      all = all + total(column(number, DONE))
      again = again + total(column(number, AGAIN))
   end
   print("TPC-C transactions:")
   for number, transaction in ipairs(TRANSACTIONS) do
      local count = total(column(number, DONE))
      local line = string.format("    %-12s %9d  %5.1f%%  mean %8.2f ms  longest %8.2f ms", transaction.name, count,
         count * 100 / math.max(all, 1), total(column(number, SECONDS)) * 1000 / math.max(count, 1), slowest[number] * 1000)
      if transaction.no then
         line = line .. string.format("  %d %s", total(column(number, NOT_THROUGH)), transaction.no)
      end
      print(line)
   end
   print()
   -- Without a single transaction there is no rate.
   local minutes = (ended - began) / 60
   if all > 0 and minutes > 0 then
      print(string.format("notpm: %.1f", total(column(1, DONE)) / minutes))
      print(string.format("retries_per_transaction: %.6f", again / all))
   end
end

-- ------------------------------------------------------------------------------------------------------------------
-- Consistency conditions (clause 3.3.2), of one warehouse at a time. Each query gives the rows that break it: the
-- district (0: the warehouse itself), what should be, what is. Nobody may write meanwhile.

local DELIVERED_AMOUNTS = [[(SELECT o_d_id, o_c_id, SUM(ol_amount) AS amount FROM orders JOIN order_line
      ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
   WHERE o_w_id = :w AND ol_delivery_d IS NOT NULL GROUP BY o_d_id, o_c_id) AS delivered
   ON o_d_id = c_d_id AND o_c_id = c_id]]

local CONDITIONS = {
   {"W_YTD = sum(D_YTD)",
      [[SELECT 0, (SELECT SUM(d_ytd) FROM district WHERE d_w_id = :w) AS wanted, w_ytd FROM warehouse
      WHERE w_id = :w HAVING NOT wanted <=> w_ytd]]},
   {"D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
      [[SELECT d_id, d_next_o_id - 1, CONCAT(COALESCE(last_order, 'none'), ' and ', COALESCE(last_new, 'none')) FROM district
      LEFT JOIN (SELECT o_d_id, MAX(o_id) AS last_order FROM orders WHERE o_w_id = :w GROUP BY o_d_id) AS o ON o_d_id = d_id
      LEFT JOIN (SELECT no_d_id, MAX(no_o_id) AS last_new FROM new_order WHERE no_w_id = :w GROUP BY no_d_id) AS n
         ON no_d_id = d_id
      WHERE d_w_id = :w AND NOT (d_next_o_id - 1 <=> last_order AND (last_new IS NULL OR last_new = last_order))]]},
   {"max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER",
      [[SELECT no_d_id, MAX(no_o_id) - MIN(no_o_id) + 1 AS wanted, COUNT(*) AS found FROM new_order WHERE no_w_id = :w
      GROUP BY no_d_id HAVING wanted <> found]]},
   {"sum(O_OL_CNT) = rows of ORDER-LINE",
      [[SELECT d_id, wanted, found FROM district
      LEFT JOIN (SELECT o_d_id, SUM(o_ol_cnt) AS wanted FROM orders WHERE o_w_id = :w GROUP BY o_d_id) AS o ON o_d_id = d_id
      LEFT JOIN (SELECT ol_d_id, COUNT(*) AS found FROM order_line WHERE ol_w_id = :w GROUP BY ol_d_id) AS l ON ol_d_id = d_id
      WHERE d_w_id = :w AND NOT wanted <=> found]]},
   {"O_CARRIER_ID is null exactly where NEW-ORDER has a row",
      [[SELECT o_d_id, IF(no_o_id IS NULL, 'a carrier', 'no carrier'), CONCAT('order ', o_id, ' with ',
         COALESCE(o_carrier_id, 'none')) FROM orders
      LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
      WHERE o_w_id = :w AND (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)]]},
   {"O_OL_CNT = rows of ORDER-LINE of the order",
      [[SELECT o_d_id, CONCAT(o_ol_cnt, ' of order ', o_id), COUNT(ol_number) FROM orders
      LEFT JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
      WHERE o_w_id = :w GROUP BY o_d_id, o_id, o_ol_cnt HAVING o_ol_cnt <> COUNT(ol_number)]]},
   {"OL_DELIVERY_D is null exactly where O_CARRIER_ID is",
      [[SELECT ol_d_id, IF(o_carrier_id IS NULL, 'no date', 'a date'), CONCAT('line ', ol_number, ' of order ', ol_o_id)
      FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
      WHERE ol_w_id = :w AND (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)]]},
   {"W_YTD = sum(H_AMOUNT)",
      [[SELECT 0, (SELECT SUM(h_amount) FROM history WHERE h_w_id = :w) AS wanted, w_ytd FROM warehouse
      WHERE w_id = :w HAVING NOT wanted <=> w_ytd]]},
   {"D_YTD = sum(H_AMOUNT)",
      [[SELECT d_id, paid, d_ytd FROM district
      LEFT JOIN (SELECT h_d_id, SUM(h_amount) AS paid FROM history WHERE h_w_id = :w GROUP BY h_d_id) AS h ON h_d_id = d_id
      WHERE d_w_id = :w AND NOT paid <=> d_ytd]]},
   {"C_BALANCE = sum(OL_AMOUNT delivered) - sum(H_AMOUNT)",
      [[SELECT c_d_id, COALESCE(delivered.amount, 0) - COALESCE(paid.amount, 0) AS wanted,
         CONCAT(c_balance, ' of customer ', c_id) FROM customer LEFT JOIN ]] .. DELIVERED_AMOUNTS .. [[
      LEFT JOIN (SELECT h_c_d_id, h_c_id, SUM(h_amount) AS amount FROM history WHERE h_c_w_id = :w GROUP BY h_c_d_id, h_c_id)
         AS paid ON h_c_d_id = c_d_id AND h_c_id = c_id
      WHERE c_w_id = :w AND COALESCE(delivered.amount, 0) - COALESCE(paid.amount, 0) <> c_balance]]},
   -- As the specification has it, 2100 are delivered, it holds before the first Delivery only; those are added here.
   {"rows of ORDER - rows of NEW-ORDER = those delivered at first + sum(C_DELIVERY_CNT)",
      [[SELECT d_id, deliveries + :delivered AS wanted, placed - COALESCE(open_ones, 0) AS found FROM district
      LEFT JOIN (SELECT o_d_id, COUNT(*) AS placed FROM orders WHERE o_w_id = :w GROUP BY o_d_id) AS o ON o_d_id = d_id
      LEFT JOIN (SELECT no_d_id, COUNT(*) AS open_ones FROM new_order WHERE no_w_id = :w GROUP BY no_d_id) AS n
         ON no_d_id = d_id
      LEFT JOIN (SELECT c_d_id, SUM(c_delivery_cnt) AS deliveries FROM customer WHERE c_w_id = :w GROUP BY c_d_id) AS c
         ON c_d_id = d_id
      WHERE d_w_id = :w HAVING NOT wanted <=> found]]},
   {"C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT delivered)",
      [[SELECT c_d_id, COALESCE(amount, 0) AS wanted, CONCAT(c_balance + c_ytd_payment, ' of customer ', c_id) FROM customer
      LEFT JOIN ]] .. DELIVERED_AMOUNTS .. [[
      WHERE c_w_id = :w AND COALESCE(amount, 0) <> c_balance + c_ytd_payment]]},
}

local MOST_SHOWN = 5 -- rows of one condition and warehouse

local function check()
   sized()
   connection = connect()
   local there = tonumber((row("SELECT COUNT(*) FROM warehouse")))
   if there ~= size.warehouses then
      error(string.format("there are %d warehouses; --warehouses=%d was given", there, size.warehouses), 0)
   end
   local broken = 0
   for number, condition in ipairs(CONDITIONS) do
      local holds = true
      for w = 1, size.warehouses do
         local sql = condition[2]:gsub(":w", w):gsub(":delivered", size.delivered)
         for i, found in ipairs(rows("%s LIMIT " .. MOST_SHOWN, sql)) do
            local where = "warehouse " .. w
            if tonumber(found[1]) > 0 then where = string.format("district %s of %s", found[1], where) end
            print(string.format("condition %d does not hold in %s: %s; should be %s, is %s", number, where, condition[1],
               tostring(found[2]), tostring(found[3])))
            holds = false
         end
      end
      if holds then print(string.format("condition %d holds: %s", number, condition[1])) else broken = broken + 1 end
   end
   if broken > 0 then
      io.stderr:write(string.format("tpcc: %d of the %d consistency conditions (clause 3.3.2) do not hold\n", broken,
         #CONDITIONS))
      os.exit(1)
   end
end

sysbench.cmdline.commands = {
   prepare = {or_die(prepare), sysbench.cmdline.PARALLEL_COMMAND},
   check = {or_die(check)},
   cleanup = {or_die(cleanup)},
}
