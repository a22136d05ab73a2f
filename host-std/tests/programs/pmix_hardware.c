/* Prints what a client is told about the hardware of its node and about its place there. */
#include "pmix_common.h"

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

int main(void)
{
    pmix_value_t *value;

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
    printf("\n");
    return finish();
}
