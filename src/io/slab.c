/* Owns the memory that blocks land in, straight from the kernel. Touches none of it: a page counts
 * once a read lands in it. Gives huge pages only where a whole one lies inside the slab, so that no
 * slab ever counts for more than its bytes. */
#include "io/slab.h"

#include "base/fault.h"
#include "base/mem.h"
#include "io/file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Of a slab, from its beginning, what huge pages may hold. */
static size_t huge_bytes(size_t rounded) {
    return rounded - rounded % SL_SLAB_ALIGN;
}

size_t slab_touched_bytes(size_t bytes, size_t used) {
    size_t huge = huge_bytes(size_round_up(bytes, SL_IO_ALIGN));
    must(used <= bytes);
    return used < huge ? size_round_up(used, SL_SLAB_ALIGN) : used;
}

enum status slab_init(struct slab *slab, size_t bytes, struct error *err) {
    struct slab made = {0};
    size_t room;
    if (bytes == 0) {
        *slab = made;
        return SL_OK;
    }
    if (!size_add(bytes, 2 * SL_SLAB_ALIGN, &room))
        return error_memory(err, bytes, "a slab");
    size_t rounded = size_round_up(bytes, SL_IO_ALIGN);
    room = rounded + SL_SLAB_ALIGN;
    void *mapped = MAP_FAILED;
    if (!fault_hit(SL_FAULT_ALLOC))
        mapped = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return error_memory(err, rounded, "a slab");
    /* What lies before and behind the aligned part goes back at once. Where the kernel cannot split
     * the mapping (its limit of mappings is reached) the rest stays: address space, not memory. */
    size_t before = size_round_up((uintptr_t)mapped, SL_SLAB_ALIGN) - (uintptr_t)mapped;
    size_t behind = room - before - rounded;
    made.data = (uint8_t *)mapped + before;
    made.bytes = rounded;
    made.mapped = mapped;
    made.mapped_bytes = room;
    if (behind > 0 && munmap(made.data + rounded, behind) == 0)
        made.mapped_bytes -= behind;
    if (before > 0 && munmap(mapped, before) == 0) {
        made.mapped = made.data;
        made.mapped_bytes -= before;
    }
    /* Advice: a kernel without huge pages refuses it, and that is fine. */
    size_t huge = huge_bytes(rounded);
    if (huge > 0)
        (void)madvise(made.data, huge, MADV_HUGEPAGE);
    if (rounded > huge)
        (void)madvise(made.data + huge, rounded - huge, MADV_NOHUGEPAGE);
    *slab = made;
    return SL_OK;
}

void slab_release(struct slab *slab) {
    if (slab->mapped != NULL)
        must(munmap(slab->mapped, slab->mapped_bytes) == 0);
    *slab = (struct slab){0};
}
