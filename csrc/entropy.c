/* SPDX-License-Identifier: Apache-2.0
 * The only file that asks the operating system. */
#define _DEFAULT_SOURCE
#include "dpf_impl.h"

#include <errno.h>
#include <sys/mman.h>

#ifdef __linux__
#include <sys/random.h>
static int dpf_ask(uint8_t *out, size_t n) {
    const uint8_t *begin = out;
    while (n > 0) {
        const ssize_t got = getrandom(out, n, 0);
        if (got < 0 && errno == EINTR && out == begin)
            return DPF_INTERRUPTED; /* early in boot the next answer may be minutes away */
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
    const int status = dpf_ask(out, (size_t)n);
    if (status != 0)
        dpf_wipe(out, n);
    return status;
}

void dpf_wipe(void *at, int64_t n) {
    memset(at, 0, (size_t)n);
    __asm__ volatile("" : : "r"(at) : "memory"); /* the compiler must take the zeros as read */
}

void dpf_wipe_key(uint8_t *key) {
    dpf_wipe(key, 32);
}

dpf_bits *dpf_bits_new(void) {
    void *page = mmap(NULL, sizeof(dpf_bits), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
#ifdef MADV_WIPEONFORK
    (void)madvise(page, sizeof(dpf_bits), MADV_WIPEONFORK); /* an older system says no: Python's fork hook is left */
#endif
    return page;
}

void dpf_bits_free(dpf_bits *bits) {
    dpf_wipe(bits, sizeof *bits);
    munmap(bits, sizeof *bits);
}
