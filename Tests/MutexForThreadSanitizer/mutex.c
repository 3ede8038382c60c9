/*
 * Tells the thread sanitizer what Swift's Mutex does where it cannot see it.
 *
 * On Linux the fast ways of Mutex are atomic operations that the compiler puts into our own code, where the sanitizer watches
 * them. The slow ones, for a lock that somebody else holds, are in Swift's library, which is not watched: a lock that was waited
 * for would seem never to have been taken, and all that it guards a race. So these three functions stand in front of the
 * library's, call them, and say what happened. The linker takes a program's own functions before those of libraries.
 *
 * Nothing of this is in a build without the sanitizer.
 */
#if defined(__linux__) && defined(__has_feature)
#if __has_feature(thread_sanitizer)

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

extern void __tsan_acquire(void *);
extern void __tsan_release(void *);

#define SWIFT __attribute__((swiftcall, no_sanitize("thread")))
#define SELF __attribute__((swift_context)) void *self
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"

static __attribute__((swiftcall)) void (*real_lock)(uint32_t thread, SELF);
static __attribute__((swiftcall)) void (*real_unlock)(SELF);
static __attribute__((swiftcall)) bool (*real_try_lock)(SELF);

__attribute__((constructor, no_sanitize("thread"))) static void find(void) {
  real_lock = dlsym(RTLD_NEXT, LOCK);
  real_unlock = dlsym(RTLD_NEXT, UNLOCK);
  real_try_lock = dlsym(RTLD_NEXT, TRY_LOCK);
}

SWIFT void zonecast_lock(uint32_t thread, SELF) __asm__(LOCK);
SWIFT void zonecast_lock(uint32_t thread, SELF) {
  real_lock(thread, self);
  __tsan_acquire(self);
}

SWIFT void zonecast_unlock(SELF) __asm__(UNLOCK);
SWIFT void zonecast_unlock(SELF) {
  __tsan_release(self);
  real_unlock(self);
}

SWIFT bool zonecast_try_lock(SELF) __asm__(TRY_LOCK);
SWIFT bool zonecast_try_lock(SELF) {
  bool is_taken = real_try_lock(self);
  if (is_taken) __tsan_acquire(self);
  return is_taken;
}

#endif
#endif
