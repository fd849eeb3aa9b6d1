#!/bin/sh
# Writes 10.11.tsv from a running stock server whose built-in Performance Schema is on.
# usage: regenerate.sh SOCKET > 10.11.tsv
#
# These are facts only: table, position, column, type, nullable, collation, default.
exec mariadb --no-defaults --socket="$1" --user=root --batch --skip-column-names --execute "
  SELECT table_name, ordinal_position, column_name, column_type, is_nullable,
         IFNULL(collation_name, '-'), IFNULL(column_default, '-')
  FROM information_schema.columns
  WHERE table_schema = 'performance_schema'
  ORDER BY table_name, ordinal_position"
