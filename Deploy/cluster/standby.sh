#!/bin/sh
# Runs the standby: copies the primary the first time, follows it, and lets the primary's commits wait for it.
#
#   standby.sh PRIMARY NAME [SETTING...]     the password is in the file that POSTGRES_PASSWORD_FILE names
set -eu
primary=$1 name=$2
shift 2
PGPASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
export PGPASSWORD PGUSER=postgres

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    until pg_isready -q -h "$primary"; do sleep 1; done
    rm -rf "${PGDATA:?}"/*
    pg_basebackup -h "$primary" -D "$PGDATA" -R -X stream -c fast -d "application_name=$name"
    chmod 700 "$PGDATA"
fi
# Not earlier: without a standby, commits that wait for one would wait for ever.
(
    until [ "$(psql -h "$primary" -d postgres -Atc \
        "SELECT count(*) FROM pg_stat_replication WHERE application_name = '$name' AND state = 'streaming'" 2> /dev/null)" = 1 ]; do
        sleep 1
    done
    psql -h "$primary" -d postgres -qc "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (\"$name\")'" \
        -c "SELECT pg_reload_conf()" > /dev/null
) &
exec postgres "$@"
