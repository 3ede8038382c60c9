/*
 * Reports to the thread sanitizer what Swift's Mutex does in code that the sanitizer does not instrument.
 *
 * On Linux, the fast paths of Mutex are atomic operations that the compiler inlines into our code, where the sanitizer
 * instruments them. The slow paths, for a contended lock, are in Swift's library, which is not instrumented: after a wait,
 * the lock would seem never to have been taken, and every access that it guards would look like a race. These three
 * functions therefore interpose the library's, call them, and report what happened. The linker prefers a program's own
 * functions to those of libraries.
 *
 * Builds without the sanitizer contain none of this.
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
