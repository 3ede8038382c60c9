#!/bin/sh
# Runs once, when the image of PostgreSQL has created the first server's data: lets the standby connect.
set -eu
echo "host replication all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d postgres -c "SELECT pg_reload_conf()" > /dev/null
