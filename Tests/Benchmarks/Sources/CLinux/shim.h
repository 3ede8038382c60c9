// What Swift's Glibc module leaves out.
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

// Declared by <string.h> for _GNU_SOURCE only, which the module was built without.
void *memmem(const void *haystack, size_t length, const void *needle, size_t needle_length);
