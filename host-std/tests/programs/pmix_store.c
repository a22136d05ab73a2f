/* What is found where a library reads the values of its job in shared memory. */
#include "pmix_common.h"

static char large[1 << 20];

static void put(pmix_scope_t scope, const char *key, const char *text)
{
    pmix_value_t value;
    value.type = PMIX_STRING;
    value.data.string = (char *)text;
    check(PMIx_Put(scope, key, &value), "put");
}

static void found(pmix_rank_t rank, const char *key, const char *text)
{
    pmix_proc_t of;
    pmix_value_t *value;
    PMIX_PROC_LOAD(&of, self.nspace, rank);
    check(PMIx_Get(&of, key, NULL, 0, &value), key);
    holds(value->type == PMIX_STRING && strcmp(value->data.string, text) == 0, key);
    PMIX_VALUE_RELEASE(value);
}

static uint32_t number(pmix_rank_t rank, const char *key)
{
    pmix_proc_t of;
    pmix_value_t *value;
    pmix_info_t optional;
    bool yes = true;
    PMIX_PROC_LOAD(&of, self.nspace, rank);
    /* Without a request to the server. */
    PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    check(PMIx_Get(&of, key, &optional, 1, &value), key);
    uint32_t found = value->type == PMIX_UINT16 ? value->data.uint16 : value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return found;
}

/* True if a file of the store is mapped. */
static int reads_store(void)
{
    char line[4096];
    int is = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        is |= strstr(line, "/smdataseg-") != NULL;
    if (maps)
        fclose(maps);
    return is;
}

int main(int argc, char **argv)
{
    char text[64], key[32];
    (void)argv;
    begin();
    uint32_t size = number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    holds(number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE) == size, "all ranks are on this node");
    for (uint32_t rank = 0; rank < size; rank++)
        holds(number(rank, PMIX_LOCAL_RANK) == rank, "each rank has its number on the node");
    memset(large, 'x', sizeof large - 1);
    snprintf(text, sizeof text, "first of %u", self.rank);
    put(PMIX_GLOBAL, "global", text);
    put(PMIX_LOCAL, "local", text);
    put(PMIX_REMOTE, "remote", text);
    check(PMIx_Commit(), "commit");
    meet();
    for (uint32_t rank = 0; rank < size; rank++) {
        snprintf(text, sizeof text, "first of %u", rank);
        found(rank, "global", text);
        found(rank, "local", text);
    }
    meet();
    /* A value may be replaced by a longer one, and further ones be added one by one. */
    for (int round = 0; round < 40; round++) {
        snprintf(key, sizeof key, "key %d", round);
        snprintf(text, sizeof text, "round %d of %u", round, self.rank);
        put(PMIX_GLOBAL, "global", text);
        put(PMIX_GLOBAL, key, text);
        check(PMIx_Commit(), "commit");
    }
    meet();
    for (uint32_t rank = 0; rank < size; rank++) {
        for (int round = 0; round < 40; round++) {
            snprintf(key, sizeof key, "key %d", round);
            snprintf(text, sizeof text, "round %d of %u", round, rank);
            found(rank, key, text);
        }
        if (rank != self.rank)
            found(rank, "global", text);
        snprintf(text, sizeof text, "first of %u", rank);
        found(rank, "local", text);
    }
    meet();
    put(PMIX_GLOBAL, "large", large);
    check(PMIx_Commit(), "commit");
    meet();
    found((self.rank + 1) % size, "large", large);
    meet();
    say(reads_store() ? "found in memory" : "found by messages");
    while (argc > 1)
        pause();
    return finish();
}
