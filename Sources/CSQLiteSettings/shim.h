#pragma once

// As in sqlite3.h, which reaches Swift through GRDB; Swift cannot call what takes any number of arguments.
int sqlite3_config(int, ...);

/// SQLITE_CONFIG_MEMSTATUS off: SQLite does not count its memory. To be called before SQLite is first used.
static inline int zonecast_sqlite_count_no_memory(void) { return sqlite3_config(9, 0); }
