#pragma once

// As in sqlite3.h, which reaches Swift through GRDB; Swift cannot call what takes any number of arguments.
struct sqlite3;
int sqlite3_config(int, ...);
int sqlite3_db_config(struct sqlite3 *, int, ...);

/// SQLITE_CONFIG_MEMSTATUS off: SQLite does not count its memory. To be called before SQLite is first used.
static inline int zonecast_sqlite_count_no_memory(void) { return sqlite3_config(9, 0); }

/// SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE on: the file's log stays as it is when the last connection closes.
static inline int zonecast_sqlite_leave_log(struct sqlite3 *database) {
    return sqlite3_db_config(database, 1006, 1, (int *)0);
}
