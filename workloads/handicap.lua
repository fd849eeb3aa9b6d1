-- oltp_read_only, and then a call of a procedure that burns as much CPU time in the server as whoever made it wanted: a
-- handicap of known size, for checking the lab itself (`make lab-calibrate`).
--
--    CREATE PROCEDURE lab_handicap.pay() NO SQL DO BENCHMARK(100, RAND())
--    sysbench handicap.lua run

require("oltp_common")

function prepare_statements()
   prepare_begin()
   prepare_commit()
   prepare_point_selects()
   prepare_simple_ranges()
   prepare_sum_ranges()
   prepare_order_ranges()
   prepare_distinct_ranges()
end

function event()
   begin()
   execute_point_selects()
   execute_simple_ranges()
   execute_sum_ranges()
   execute_order_ranges()
   execute_distinct_ranges()
   commit()
   con:query("CALL lab_handicap.pay()")
end
