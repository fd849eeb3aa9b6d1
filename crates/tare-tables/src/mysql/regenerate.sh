#!/bin/sh
# Writes columns.tsv from a running MySQL 9.7, such as that of `scripts/hosts.sh mysql`.
# usage: regenerate.sh SOCKET > columns.tsv
# Run INSTALL PLUGIN clone SONAME 'mysql_clone.so' first, for the tables that come with it.
#
# These are facts only: table, column, type, nullable.
exec mariadb --no-defaults --socket="$1" --user=root --batch --skip-column-names --execute "
  SELECT table_name, column_name, column_type, is_nullable
  FROM information_schema.columns
  WHERE table_schema = 'performance_schema'
  ORDER BY table_name, ordinal_position"
