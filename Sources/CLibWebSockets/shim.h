#pragma once
#include <libwebsockets.h>
#include <openssl/crypto.h>

// The macro is an expression over sizeof and does not import into Swift.
static const size_t zonecast_lws_pre = LWS_PRE;

// The service thread may be inside of OpenSSL when a program ends: OpenSSL must not take itself apart under it.
static inline void zonecast_keep_openssl(void) { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL); }
