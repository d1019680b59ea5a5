/*
 * New memory from the operating system, in huge pages where it has them. Shared memory gets transparent huge pages if
 * the system gives them on request (then a page is placed near the rank that first touches it), else reserved huge
 * pages (hugetlb) if there are enough.
 */
#include "comm/comm_impl.h"

#include <errno.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* of Linux 5.14, which older headers lack */
#endif

enum { HUGE = 2 << 20 };

/* Smaller mappings ask for no huge pages. */
#define ADVISE_FROM_BYTES ((size_t)4 << 20)

static ls_status no_memory(size_t bytes, const char *kind, const char *call) {
    return ls_error(LS_NO_MEMORY, "cannot map %zu bytes of %s memory: %s: %s", bytes, kind, call, strerror(errno));
}

/* ---- shared ---- */

/* The chosen word of a line "always within_size advise [never] deny force" in a file; "" when there is none. */
static void read_choice(const char *folder, const char *name, char *choice, size_t room) {
    char *path = NULL, line[256];
    choice[0] = 0;
    FILE *file = asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : fopen(path, "re");
    free(path);
    if (file == NULL) return;
    const char *start = fgets(line, sizeof line, file) != NULL ? strchr(line, '[') : NULL;
    const char *end = start != NULL ? strchr(start, ']') : NULL;
    if (end != NULL) snprintf(choice, room, "%.*s", (int)(end - start - 1), start + 1);
    fclose(file);
}

bool ls_shared_gets_huge_pages(const char *folder) {
    static const char *const yes[] = {"always", "within_size", "advise", "force"};
    char choice[32];
    read_choice(folder, "hugepages-2048kB/shmem_enabled", choice, sizeof choice); /* of Linux 6.11 */
    if (choice[0] == 0 || strcmp(choice, "inherit") == 0) read_choice(folder, "shmem_enabled", choice, sizeof choice);
    for (size_t i = 0; i < LS_COUNT(yes); i++)
        if (strcmp(choice, yes[i]) == 0) return true;
    return false;
}

/*
 * Maps a new memfd over address space that the caller reserved. The memfd gives the mapping a name in /proc/PID/maps;
 * where there is no memfd (old kernels, sandboxes) the mapping is anonymous. Neither leaves a file behind. hugetlb:
 * flags for reserved huge pages, or 0. The system must reserve such pages for this mapping now, so MAP_NORESERVE is not
 * used for them.
 */
static bool map_over(char *at, size_t bytes, unsigned hugetlb) {
    const int protection = PROT_READ | PROT_WRITE;
    const int flags = MAP_SHARED | MAP_FIXED | (hugetlb != 0 ? 0 : MAP_NORESERVE);
    bool mapped = false;
    const int fd = memfd_create("longspan-heap", MFD_CLOEXEC | hugetlb);
    if (fd >= 0) {
        mapped = ftruncate(fd, (off_t)bytes) == 0 && mmap(at, bytes, protection, flags, fd, 0) != MAP_FAILED;
        close(fd);
    }
    if (!mapped && hugetlb == 0) mapped = mmap(at, bytes, protection, flags | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    return mapped;
}

/*
 * Maps reserved huge pages and allocates them at once, because reaching a limit (of a cgroup) later would kill the
 * process by a signal. The rest after the last whole huge page is ordinary memory, so that no more than `bytes` is
 * mapped.
 */
static bool map_hugetlb(char *at, size_t bytes) {
    const size_t whole = bytes / HUGE * HUGE;
    return map_over(at, whole, MFD_HUGETLB | MFD_HUGE_2MB) && madvise(at, whole, MADV_POPULATE_WRITE) == 0 &&
           (whole == bytes || map_over(at + whole, bytes - whole, 0));
}

/* Reserves address space that begins at a multiple of the huge page size; NULL on error. */
static char *reserve(size_t bytes) {
    const size_t room = bytes + HUGE;
    char *base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return NULL;
    const size_t before = ls_round_up((uintptr_t)base, HUGE) - (uintptr_t)base;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), used = before + ls_round_up(bytes, page);
    if (before > 0) munmap(base, before);
    if (used < room) munmap(base + used, room - used);
    return base + before;
}

ls_status ls_map_shared(size_t bytes, ls_mapping *out) {
    const bool large = bytes >= ADVISE_FROM_BYTES;
    const bool on_request = large && ls_shared_gets_huge_pages("/sys/kernel/mm/transparent_hugepage");
    char *base = reserve(bytes);
    if (base == NULL) return no_memory(bytes, "shared", "mmap");
    if (!large || on_request || !map_hugetlb(base, bytes)) {
        if (!map_over(base, bytes, 0)) {
            const ls_status status = no_memory(bytes, "shared", "mmap");
            munmap(base, bytes);
            return status;
        }
        if (on_request) (void)madvise(base, bytes / HUGE * HUGE, MADV_HUGEPAGE); /* no huge page extends past the end */
    }
    *out = (ls_mapping){base, bytes};
    return ls_ok();
}

ls_status ls_map_passed(int fd, size_t bytes, ls_mapping *out) {
    char *base = reserve(bytes);
    if (base == NULL) return no_memory(bytes, "shared", "mmap");
    if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) == MAP_FAILED) {
        const ls_status status = no_memory(bytes, "shared", "mmap");
        munmap(base, bytes);
        return status;
    }
    if (bytes >= ADVISE_FROM_BYTES) (void)madvise(base, bytes / HUGE * HUGE, MADV_HUGEPAGE);
    *out = (ls_mapping){base, bytes};
    return ls_ok();
}

/* Without reserved huge pages, because the size of a file of them would have to be a multiple of the huge page. */
ls_status ls_map_passable(size_t bytes, ls_mapping *out, int *fd) {
    const int made = memfd_create("longspan-heap", MFD_CLOEXEC);
    if (made < 0) return no_memory(bytes, "shared", "memfd_create");
    if (ftruncate(made, (off_t)bytes) != 0) {
        const ls_status status = no_memory(bytes, "shared", "ftruncate");
        close(made);
        return status;
    }
    const ls_status status = ls_map_passed(made, bytes, out);
    if (status.code != LS_OK)
        close(made);
    else
        *fd = made;
    return status;
}

/* ---- private ---- */

ls_status ls_map_private(size_t bytes, ls_mapping *out) {
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return no_memory(bytes, "private", "mmap");
    if (bytes >= ADVISE_FROM_BYTES)
        (void)madvise(base, bytes, MADV_HUGEPAGE); /* failure is ignored: without huge pages access is only slower */
    *out = (ls_mapping){base, bytes};
    return ls_ok();
}

void ls_unmap(ls_mapping *mapping) {
    if (mapping->base) munmap(mapping->base, mapping->bytes);
    *mapping = (ls_mapping){NULL, 0};
}
