#pragma once
#include <libpq-fe.h>

// The macros are characters; Swift's calls need integers.
static const int zonecast_pq_severity = PG_DIAG_SEVERITY_NONLOCALIZED;
static const int zonecast_pq_state = PG_DIAG_SQLSTATE;
static const int zonecast_pq_message = PG_DIAG_MESSAGE_PRIMARY;
