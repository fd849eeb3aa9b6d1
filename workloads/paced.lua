-- Any other script, at a rate that does not depend on how fast the server answers (an open loop), for sysbench 1.0.
--
-- Whoever starts it writes a time to its standard input at each arrival: 8 bytes, nanoseconds of CLOCK_MONOTONIC, when the
-- transaction was to begin. The connection that is idle takes it; when none is, it waits in the pipe. Latency is counted from
-- that time, so a stall is charged to all that waited for it. When the pipe is closed and empty, the load ends.
--
--    TARE_WORKLOAD=oltp_point_select sysbench paced.lua --time=0 --threads=4 run < arrivals
--
-- (sysbench's own --rate lets idle connections sleep for half the time between two arrivals of theirs, and counts it as
-- latency.)

require(os.getenv("TARE_WORKLOAD"))

local ffi = require("ffi")

-- Under names of our own: the other script may know the same functions with types of its own.
ffi.cdef[[
typedef struct { int64_t seconds; int64_t nanoseconds; } paced_moment;
int paced_clock(int clock, paced_moment *moment) __asm__("clock_gettime");
int64_t paced_read(int file, void *bytes, uint64_t most) __asm__("read");
]]

local MONOTONIC = 1
local EINTR = 4
-- Buckets of the histogram grow by 2%, from a microsecond.
local GROWTH = math.log(1.02)
local LEAST = 1e-6

local moment = ffi.new("paced_moment")
local arrival = ffi.new("uint64_t[1]")

-- Seconds since the machine was started.
local function now()
   ffi.C.paced_clock(MONOTONIC, moment)
   return tonumber(moment.seconds) + tonumber(moment.nanoseconds) / 1e9
end

-- When the next transaction was to begin; nothing when there are no more.
local function due()
   local bytes
   repeat
      bytes = tonumber(ffi.C.paced_read(0, arrival, 8))
   until bytes >= 0 or ffi.errno() ~= EINTR
   return bytes == 8 and tonumber(arrival[0]) / 1e9 or nil
end

-- A transaction; one that the server ended is done again.
local function transaction(thread)
   while true do
      local done, problem = pcall(event, thread)
      if done then return end
      if type(problem) ~= "table" or problem.errcode ~= sysbench.error.RESTART_EVENT then error(problem, 0) end
      if sysbench.hooks.before_restart_event then sysbench.hooks.before_restart_event(problem) end
   end
end

function thread_run(thread)
   local buckets, sum, count = {}, 0, 0
   local begin = due()
   while begin do
      ffi.C.sb_event_start(thread)
      transaction(thread)
      ffi.C.sb_event_stop(thread)
      local latency = math.max(now() - begin, LEAST)
      local bucket = math.ceil(math.log(latency / LEAST) / GROWTH)
      buckets[bucket] = (buckets[bucket] or 0) + 1
      sum, count = sum + latency, count + 1
      begin = due()
   end
   -- At once: other threads print, too.
   local lines = {string.format("paced sum %.9f %d\n", sum, count)}
   for bucket, number in pairs(buckets) do
      lines[#lines + 1] = string.format("paced %.9f %d\n", LEAST * math.exp(bucket * GROWTH), number)
   end
   io.write(table.concat(lines))
end
