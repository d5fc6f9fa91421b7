/* SPDX-License-Identifier: Apache-2.0
 * The only file that asks the operating system. */
#define _DEFAULT_SOURCE
#include "dpf_impl.h"

#ifdef _WIN32
/* From windows.h, which a cross compiler may lack. RtlGenRandom (its export's name is a number) is
 * ProcessPrng; it takes 32 bits of length, and no signal comes between. */
__declspec(dllimport) unsigned char SystemFunction036(void *, unsigned long);
__declspec(dllimport) void *VirtualAlloc(void *, size_t, unsigned long, unsigned long);
__declspec(dllimport) int VirtualFree(void *, size_t, unsigned long);
enum { COMMIT_AND_RESERVE = 0x3000, READ_AND_WRITE = 4, RELEASE = 0x8000, AT_ONCE = 1 << 30 };

static int dpf_ask(uint8_t *out, size_t n) {
    for (size_t now; n > 0; out += now, n -= now) {
        now = n < AT_ONCE ? n : AT_ONCE;
        if (!SystemFunction036(out, (unsigned long)now))
            return -1;
    }
    return 0;
}
#elif defined(__linux__)
#include <errno.h>
#include <sys/mman.h>
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
#include <sys/mman.h>
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

/* ---- a page for each bit generator; in a forked child it is all zeros */

#ifdef _WIN32
/* No process is forked. */
dpf_bits *dpf_bits_new(void) {
    return VirtualAlloc(NULL, sizeof(dpf_bits), COMMIT_AND_RESERVE, READ_AND_WRITE);
}

void dpf_bits_free(dpf_bits *bits) {
    dpf_wipe(bits, sizeof *bits);
    VirtualFree(bits, 0, RELEASE);
}
#elif defined(MADV_WIPEONFORK)
dpf_bits *dpf_bits_new(void) {
    void *page = mmap(NULL, sizeof(dpf_bits), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    (void)madvise(page, sizeof(dpf_bits), MADV_WIPEONFORK); /* an older system says no: Python's fork hook is left */
    return page;
}

void dpf_bits_free(dpf_bits *bits) {
    dpf_wipe(bits, sizeof *bits);
    munmap(bits, sizeof *bits);
}
#else
#include <pthread.h>
#include <stdatomic.h>

/* The handler wipes in the child. Another thread, or what a signal handler that forked has
 * interrupted, may stand anywhere in what follows. So there is no lock: the list of pages only
 * grows, by one store, and a page that is freed stays there for the next generator. */
typedef struct held {
    dpf_bits bits;
    struct held *before;
    atomic_int taken;
} held;
static _Atomic(held *) pages;
static atomic_int spare; /* pages that nobody has; in a child a few may be miscounted */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int failed;

static void in_child(void) {
    for (held *at = atomic_load(&pages); at; at = at->before)
        dpf_wipe(&at->bits, sizeof at->bits);
}

static void enlist(void) {
    failed = pthread_atfork(NULL, NULL, in_child);
}

dpf_bits *dpf_bits_new(void) {
    pthread_once(&once, enlist);
    if (failed)
        return NULL;
    if (atomic_load(&spare) > 0)
        for (held *at = atomic_load(&pages); at; at = at->before)
            if (!atomic_exchange(&at->taken, 1)) {
                atomic_fetch_sub(&spare, 1);
                return &at->bits;
            }
    held *const page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    atomic_store(&page->taken, 1);
    page->before = atomic_load(&pages);
    while (!atomic_compare_exchange_weak(&pages, &page->before, page))
        continue;
    return &page->bits;
}

void dpf_bits_free(dpf_bits *bits) {
    held *const page = (held *)(void *)bits;
    dpf_wipe(bits, sizeof *bits);
    atomic_store(&page->taken, 0);
    atomic_fetch_add(&spare, 1);
}
#endif
