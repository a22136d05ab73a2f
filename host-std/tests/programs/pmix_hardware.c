/* Prints what a client is told about the hardware of its node and about its place there, and how many files
 * of /sys its libraries have opened: their calls find the functions here before those of the C library. */
#define _GNU_SOURCE
#include "pmix_common.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>

static int opened;

static void note(const char *path)
{
    if (strncmp(path, "/sys/", 5) == 0)
        opened++;
}

int openat(int directory, const char *path, int flags, ...)
{
    va_list more;

    va_start(more, flags);
    note(path);
    int fd = syscall(SYS_openat, directory, path, flags, va_arg(more, int));
    va_end(more);
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list more;

    va_start(more, flags);
    int fd = openat(AT_FDCWD, path, flags, va_arg(more, int));
    va_end(more);
    return fd;
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");

    note(path);
    return real(path, mode);
}

static pmix_value_t *get(pmix_rank_t rank, const char *key)
{
    pmix_proc_t of;
    pmix_value_t *value = NULL;

    PMIX_PROC_LOAD(&of, self.nspace, rank);
    return PMIx_Get(&of, key, NULL, 0, &value) == PMIX_SUCCESS ? value : NULL;
}

static void text(const char *name, const char *key)
{
    pmix_value_t *value = get(self.rank, key);
    const char *is = value == NULL || value->type != PMIX_STRING ? NULL : value->data.string;

    printf(" %s=%s", name, is == NULL ? "-" : is);
}

/* Prints what few launchers tell: the place in the package, the processors of all ranks here, network cards,
 * and how many devices have a distance by the client's own reckoning. */
static void more(void)
{
    pmix_device_distance_t *distances = NULL;
    pmix_topology_t topology;
    pmix_cpuset_t processors;
    size_t count = 0;
    pmix_value_t *value = get(self.rank, "pmix.pkgrank");

    printf(" package=%d", value == NULL ? -1 : value->data.uint16);
    value = get(PMIX_RANK_WILDCARD, "pmix.lcpus");
    printf(" cpusets=%s", value == NULL ? "-" : value->data.string);
    value = get(PMIX_RANK_WILDCARD, "pmix.fab.devs");
    printf(" cards=");
    for (size_t at = 0; value != NULL && at < value->data.darray->size; at++) {
        pmix_info_t *card = (pmix_info_t *)value->data.darray->array + at;
        pmix_info_t *known = card->value.data.darray->array;

        holds(strcmp(card->key, "pmix.fabdev") == 0, "an element is a card");
        for (size_t fact = 0; fact < card->value.data.darray->size; fact++)
            printf("%s%s", fact == 0 && at == 0 ? "" : ",", known[fact].value.data.string);
    }
    PMIX_TOPOLOGY_CONSTRUCT(&topology);
    PMIX_CPUSET_CONSTRUCT(&processors);
    check(PMIx_Load_topology(&topology), "topology");
    check(PMIx_Get_cpuset(&processors, PMIX_CPUBIND_PROCESS), "processors");
    if (PMIx_Compute_distances(&topology, &processors, NULL, 0, &distances, &count) != PMIX_SUCCESS)
        count = 0;
    printf(" near=%zu", count);
}

int main(int argc, char **argv)
{
    pmix_value_t *value;

    (void)argv;

    begin();
    printf("%u:", self.rank);
    text("cpuset", "pmix.cpuset");
    text("locality", "pmix.locstr");
    value = get(PMIX_RANK_WILDCARD, "pmix.pmem");
    printf(" memory=%llu", value == NULL ? 0 : (unsigned long long)value->data.uint64);
    value = get(self.rank, "pmix.dev.dist");
    printf(" devices=");
    if (value == NULL || value->type != PMIX_DATA_ARRAY)
        printf("-");
    else
        for (size_t at = 0; at < value->data.darray->size; at++) {
            pmix_device_distance_t *one = (pmix_device_distance_t *)value->data.darray->array + at;
            printf("%s%s:%s:%d:%u-%u", at == 0 ? "" : ",", one->osname, one->uuid, (int)one->type,
                   one->mindist, one->maxdist);
        }
    if (argc > 1)
        more();
    printf(" opened=%d\n", opened);
    return finish();
}
