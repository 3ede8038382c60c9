#pragma once
#include <libwebsockets.h>

// The macro is an expression over sizeof and does not import into Swift.
static const size_t zonecast_lws_pre = LWS_PRE;
