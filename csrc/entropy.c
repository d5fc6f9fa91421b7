/* SPDX-License-Identifier: Apache-2.0
 * The only file that asks the operating system. */
#define _DEFAULT_SOURCE
#include "dpf_impl.h"

#include <errno.h>

#ifdef __linux__
#include <sys/random.h>
static int dpf_ask(uint8_t *out, size_t n) {
    while (n > 0) {
        const ssize_t got = getrandom(out, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        out += got;
        n -= (size_t)got;
    }
    return 0;
}
#else
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif
static int dpf_ask(uint8_t *out, size_t n) {
    for (; n > 0; out += n < 256 ? n : 256, n -= n < 256 ? n : 256) /* getentropy takes 256 bytes at most */
        if (getentropy(out, n < 256 ? n : 256) != 0)
            return -1;
    return 0;
}
#endif

int dpf_entropy(uint8_t *out, int64_t n) {
    if (n < 0)
        return -1;
    if (dpf_ask(out, (size_t)n) == 0)
        return 0;
    dpf_wipe(out, n);
    return -1;
}

void dpf_wipe(void *at, int64_t n) {
    memset(at, 0, (size_t)n);
    __asm__ volatile("" : : "r"(at) : "memory"); /* the compiler must take the zeros as read */
}
