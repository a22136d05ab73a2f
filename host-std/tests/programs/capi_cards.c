/* Each rank puts a card and reads that of the next rank. Linked with a library of PMI-1, or with -DBY_NAME
 * loaded by the name in the first argument. */
#include <pmi.h>
#include <stdio.h>
#include <string.h>

#ifdef BY_NAME
#include <dlfcn.h>

static void *library;
#define FUNCTION(name) ((__typeof__(&name))dlsym(library, #name))
#else
#define FUNCTION(name) name
#endif

int main(int argc, char **argv) {
    int spawned, rank, size;
    char space[256], key[64], card[64], found[1024];
#ifdef BY_NAME
    library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
#endif
    (void)argc, (void)argv;
    if (FUNCTION(PMI_Init)(&spawned) || FUNCTION(PMI_Get_rank)(&rank) || FUNCTION(PMI_Get_size)(&size))
        return 4;
    if (FUNCTION(PMI_KVS_Get_my_name)(space, sizeof space))
        return 5;
    snprintf(key, sizeof key, "card-%d", rank);
    snprintf(card, sizeof card, "from-%d", rank);
    if (FUNCTION(PMI_KVS_Put)(space, key, card) || FUNCTION(PMI_KVS_Commit)(space) || FUNCTION(PMI_Barrier)())
        return 6;
    snprintf(key, sizeof key, "card-%d", (rank + 1) % size);
    if (FUNCTION(PMI_KVS_Get)(space, key, found, sizeof found))
        return 7;
    printf("rank %d of %d: card %s\n", rank, size, found);
    return FUNCTION(PMI_Finalize)();
}
