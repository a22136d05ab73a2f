/* Every function of pmi.h, as a program of others calls it: values, codes, threads and a forked child.
 *
 *   capi_pmi1 [names] [refused] [lonely]    with a name service; with a spawn that fails; without a launcher
 */
#include <pmi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int faults;

static void check(int line, const char *what, int got, int expected) {
    if (got != expected) {
        fprintf(stderr, "line %d: %s is %d, not %d\n", line, what, got, expected);
        faults++;
    }
}
#define CHECK(call, expected) check(__LINE__, #call, (call), (expected))

static char kvsname[512];
static int rank, size;

/* All that needs a session, without one. */
static void without_session(void) {
    int number = -7;
    char text[64] = "untouched";
    PMI_keyval_t pair = {"k", text};
    const char *command = "true";
    int one = 1, errors[1];
    CHECK(PMI_Initialized(&number), PMI_SUCCESS);
    CHECK(number, PMI_FALSE);
    number = -7;
    CHECK(PMI_Get_size(&number), PMI_ERR_INIT);
    CHECK(PMI_Get_rank(&number), PMI_ERR_INIT);
    CHECK(PMI_Get_universe_size(&number), PMI_ERR_INIT);
    CHECK(PMI_Get_appnum(&number), PMI_ERR_INIT);
    CHECK(PMI_Get_clique_size(&number), PMI_ERR_INIT);
    CHECK(PMI_Get_clique_ranks(&number, 1), PMI_ERR_INIT);
    CHECK(PMI_KVS_Get_name_length_max(&number), PMI_ERR_INIT);
    CHECK(PMI_KVS_Get_key_length_max(&number), PMI_ERR_INIT);
    CHECK(PMI_KVS_Get_value_length_max(&number), PMI_ERR_INIT);
    CHECK(PMI_Get_id_length_max(&number), PMI_ERR_INIT);
    CHECK(PMI_KVS_Get_my_name(text, sizeof text), PMI_ERR_INIT);
    CHECK(PMI_Get_id(text, sizeof text), PMI_ERR_INIT);
    CHECK(PMI_Get_kvs_domain_id(text, sizeof text), PMI_ERR_INIT);
    CHECK(PMI_KVS_Create(text, sizeof text), PMI_ERR_INIT);
    CHECK(PMI_KVS_Destroy("x"), PMI_ERR_INIT);
    CHECK(PMI_KVS_Put("x", "k", "v"), PMI_ERR_INIT);
    CHECK(PMI_KVS_Commit("x"), PMI_ERR_INIT);
    CHECK(PMI_KVS_Get("x", "k", text, sizeof text), PMI_ERR_INIT);
    CHECK(PMI_KVS_Iter_first("x", text, 32, text + 32, 32), PMI_ERR_INIT);
    CHECK(PMI_KVS_Iter_next("x", text, 32, text + 32, 32), PMI_ERR_INIT);
    CHECK(PMI_Barrier(), PMI_ERR_INIT);
    CHECK(PMI_Publish_name("s", "p"), PMI_ERR_INIT);
    CHECK(PMI_Unpublish_name("s"), PMI_ERR_INIT);
    CHECK(PMI_Lookup_name("s", text), PMI_ERR_INIT);
    CHECK(PMI_Spawn_multiple(1, &command, NULL, &one, NULL, NULL, 1, &pair, errors), PMI_ERR_INIT);
    CHECK(PMI_Finalize(), PMI_ERR_INIT);
    CHECK(number, -7);
    CHECK(strcmp(text, "untouched"), 0);
}

static void arguments(void) {
    int names, keys, values;
    char *text, *more;
    const char *none = NULL;
    int zero = 0;
    CHECK(PMI_KVS_Get_name_length_max(&names), PMI_SUCCESS);
    CHECK(PMI_KVS_Get_key_length_max(&keys), PMI_SUCCESS);
    CHECK(PMI_KVS_Get_value_length_max(&values), PMI_SUCCESS);
    /* Lower bounds of RFC 13. */
    CHECK(names >= 16 && keys >= 32 && values >= 64, 1);
    CHECK(PMI_Get_id_length_max(&zero), PMI_SUCCESS);
    CHECK(zero, names);
    zero = 0;
    CHECK(PMI_KVS_Get_name_length_max(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_KVS_Get_key_length_max(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_KVS_Get_value_length_max(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_id_length_max(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Initialized(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_size(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_rank(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_universe_size(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_appnum(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_clique_size(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_clique_ranks(NULL, 8), PMI_ERR_INVALID_ARG);
    CHECK(PMI_KVS_Get_my_name(NULL, 8), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_id(NULL, 8), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_kvs_domain_id(NULL, 8), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Publish_name(NULL, "p"), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Publish_name("s", NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Unpublish_name(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Lookup_name(NULL, kvsname), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Lookup_name("s", NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Spawn_multiple(0, &none, NULL, &zero, NULL, NULL, 0, NULL, NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Spawn_multiple(1, NULL, NULL, &zero, NULL, NULL, 0, NULL, NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Spawn_multiple(1, &none, NULL, &zero, NULL, NULL, 0, NULL, NULL), PMI_ERR_INVALID_ARG);

    text = malloc(values + 2);
    more = malloc(values + 2);
    memset(text, 'x', values + 1);
    text[values] = 0;
    CHECK(PMI_KVS_Put(NULL, "k", "v"), PMI_ERR_INVALID_KVS);
    CHECK(PMI_KVS_Put("another", "k", "v"), PMI_ERR_INVALID_KVS);
    CHECK(PMI_KVS_Put(kvsname, NULL, "v"), PMI_ERR_INVALID_KEY);
    CHECK(PMI_KVS_Put(kvsname, "", "v"), PMI_ERR_INVALID_KEY);
    CHECK(PMI_KVS_Put(kvsname, "a\nb", "v"), PMI_ERR_INVALID_KEY);
    CHECK(PMI_KVS_Put(kvsname, text + values - keys, "v"), PMI_ERR_INVALID_KEY);
    CHECK(PMI_KVS_Put(kvsname, "k", NULL), PMI_ERR_INVALID_VAL);
    CHECK(PMI_KVS_Put(kvsname, "k", text), PMI_ERR_INVALID_VAL);
    CHECK(PMI_KVS_Commit(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_KVS_Commit("another"), PMI_ERR_INVALID_ARG);
    CHECK(PMI_KVS_Get(NULL, "k", more, values), PMI_ERR_INVALID_KVS);
    CHECK(PMI_KVS_Get(kvsname, NULL, more, values), PMI_ERR_INVALID_KEY);
    CHECK(PMI_KVS_Get(kvsname, "k", NULL, values), PMI_ERR_INVALID_VAL);
    CHECK(PMI_KVS_Get(kvsname, "k", more, 0), PMI_ERR_INVALID_LENGTH);
    CHECK(PMI_KVS_Get(kvsname, "k", more, -1), PMI_ERR_INVALID_LENGTH);
    CHECK(PMI_KVS_Create(NULL, names), PMI_ERR_INVALID_ARG);
    CHECK(PMI_KVS_Create(more, 1), PMI_ERR_INVALID_LENGTH);
    CHECK(PMI_KVS_Create(more, names), PMI_FAIL);
    CHECK(PMI_KVS_Destroy(NULL), PMI_ERR_INVALID_ARG);
    CHECK(PMI_KVS_Destroy(kvsname), PMI_FAIL);
    CHECK(PMI_KVS_Iter_first("another", more, keys, text, values), PMI_ERR_INVALID_KVS);
    CHECK(PMI_KVS_Iter_first(kvsname, NULL, keys, text, values), PMI_ERR_INVALID_KEY);
    CHECK(PMI_KVS_Iter_first(kvsname, more, 0, text, values), PMI_ERR_INVALID_KEY_LENGTH);
    CHECK(PMI_KVS_Iter_first(kvsname, more, keys, NULL, values), PMI_ERR_INVALID_VAL);
    CHECK(PMI_KVS_Iter_first(kvsname, more, keys, text, 0), PMI_ERR_INVALID_VAL_LENGTH);
    free(text);
    free(more);
}

static void group(void) {
    int number = -7, clique, *ranks, own = 0, i;
    char small[2] = "?";
    CHECK(PMI_Get_universe_size(&number), PMI_SUCCESS);
    CHECK(number >= -1, 1);
    number = -7;
    CHECK(PMI_Get_appnum(&number), PMI_SUCCESS);
    CHECK(number == 0 || number == -1, 1);
    CHECK(PMI_KVS_Get_my_name(small, 1), PMI_ERR_INVALID_LENGTH);
    CHECK(PMI_KVS_Get_my_name(small, 0), PMI_ERR_INVALID_LENGTH);
    CHECK(PMI_KVS_Get_my_name(small, -1), PMI_ERR_INVALID_LENGTH);
    CHECK(PMI_Get_clique_size(&clique), PMI_SUCCESS);
    CHECK(clique, size);
    ranks = malloc((clique + 1) * sizeof *ranks);
    ranks[clique] = -7;
    CHECK(PMI_Get_clique_ranks(ranks, clique - 1), PMI_ERR_INVALID_LENGTH);
    CHECK(PMI_Get_clique_ranks(ranks, clique), PMI_SUCCESS);
    for (i = 0; i < clique; i++)
        own += ranks[i] == rank;
    CHECK(own, 1);
    CHECK(ranks[clique], -7);
    free(ranks);
}

/* Puts a value of each length that matters, and reads those of all ranks. */
static void values(void) {
    int max, i;
    /* As Open MPI puts them, and what else a line of the protocol cannot carry. */
    const char *odd = "QUJD -\n%% a=b;c\td";
    char key[64], *value, *found;
    CHECK(PMI_KVS_Get_value_length_max(&max), PMI_SUCCESS);
    value = calloc(1, max);
    found = malloc(max);
    snprintf(key, sizeof key, "card-%d", rank);
    snprintf(value, max, "of-rank-%d", rank);
    CHECK(PMI_KVS_Put(kvsname, key, value), PMI_SUCCESS);
    snprintf(key, sizeof key, "odd-%d", rank);
    CHECK(PMI_KVS_Put(kvsname, key, odd), PMI_SUCCESS);
    memset(value, 'v', max - 1);
    snprintf(key, sizeof key, "longest-%d", rank);
    CHECK(PMI_KVS_Put(kvsname, key, value), PMI_SUCCESS);
    CHECK(PMI_KVS_Commit(kvsname), PMI_SUCCESS);
    CHECK(PMI_Barrier(), PMI_SUCCESS);
    for (i = 0; i < size; i++) {
        char expected[64];
        snprintf(key, sizeof key, "card-%d", i);
        snprintf(expected, sizeof expected, "of-rank-%d", i);
        CHECK(PMI_KVS_Get(kvsname, key, found, max), PMI_SUCCESS);
        CHECK(strcmp(found, expected), 0);
        /* A buffer of exactly the size, and one that is a byte too small. */
        CHECK(PMI_KVS_Get(kvsname, key, found, (int)strlen(expected) + 1), PMI_SUCCESS);
        CHECK(PMI_KVS_Get(kvsname, key, found, (int)strlen(expected)), PMI_ERR_INVALID_LENGTH);
        snprintf(key, sizeof key, "odd-%d", i);
        CHECK(PMI_KVS_Get(kvsname, key, found, max), PMI_SUCCESS);
        CHECK(strcmp(found, odd), 0);
        snprintf(key, sizeof key, "longest-%d", i);
        CHECK(PMI_KVS_Get(kvsname, key, found, max), PMI_SUCCESS);
        CHECK(strcmp(found, value), 0);
    }
    CHECK(PMI_KVS_Get(kvsname, "missing", found, max), PMI_ERR_INVALID_KEY);
    CHECK(PMI_Barrier(), PMI_SUCCESS);
    free(value);
    free(found);
}

static void *reader(void *unused) {
    int round, i, wrong = 0;
    (void)unused;
    for (round = 0; round < 20; round++)
        for (i = 0; i < size; i++) {
            char key[64], expected[64], found[1024];
            snprintf(key, sizeof key, "card-%d", i);
            snprintf(expected, sizeof expected, "of-rank-%d", i);
            wrong += PMI_KVS_Get(kvsname, key, found, sizeof found) != PMI_SUCCESS;
            wrong += strcmp(found, expected) != 0;
        }
    return (void *)(long)wrong;
}

static void threads(void) {
    pthread_t all[16];
    void *wrong;
    int i;
    for (i = 0; i < 16; i++)
        pthread_create(&all[i], NULL, reader, NULL);
    for (i = 0; i < 16; i++) {
        pthread_join(all[i], &wrong);
        CHECK((int)(long)wrong, 0);
    }
}

/* A child has no session, and opens none on the connection of its parent. */
static void child(void) {
    int status = -1;
    pid_t pid;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int number;
        faults = 0;
        without_session();
        CHECK(PMI_Init(&number), PMI_FAIL);
        _exit(faults != 0);
    }
    CHECK(waitpid(pid, &status, 0), pid);
    CHECK(status, 0);
}

static void options(void) {
    char *argv[] = {"program", "-x", "-pmi-host", "a", "b", "--pmi-wdir=/tmp", "-pmi-", NULL};
    char **args = argv;
    int argc = 7, parsed = -7, count = -7, length;
    PMI_keyval_t *pairs = NULL;
    char text[256];
    CHECK(PMI_Parse_option(0, argv, &parsed, &pairs, &count), PMI_ERR_INVALID_NUM_ARGS);
    CHECK(PMI_Parse_option(1, NULL, &parsed, &pairs, &count), PMI_ERR_INVALID_ARGS);
    CHECK(PMI_Parse_option(1, argv, NULL, &pairs, &count), PMI_ERR_INVALID_NUM_PARSED);
    CHECK(PMI_Parse_option(1, argv, &parsed, NULL, &count), PMI_ERR_INVALID_KEYVALP);
    CHECK(PMI_Parse_option(1, argv, &parsed, &pairs, NULL), PMI_ERR_INVALID_SIZE);
    CHECK(PMI_Parse_option(6, argv + 1, &parsed, &pairs, &count), PMI_SUCCESS);
    CHECK(parsed, 0);
    CHECK(count, 0);
    CHECK(PMI_Parse_option(5, argv + 2, &parsed, &pairs, &count), PMI_SUCCESS);
    CHECK(parsed, 2);
    CHECK(count, 1);
    CHECK(strcmp(pairs[0].key, "host") || strcmp(pairs[0].val, "a"), 0);
    CHECK(PMI_Free_keyvals(pairs, count), PMI_SUCCESS);
    CHECK(PMI_Args_to_keyval(NULL, (void *)&args, &pairs, &count), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Args_to_keyval(&argc, (void *)&args, &pairs, &count), PMI_SUCCESS);
    CHECK(argc, 4);
    CHECK(strcmp(argv[2], "b") || strcmp(argv[3], "-pmi-") || argv[4] != NULL, 0);
    CHECK(count, 2);
    CHECK(strcmp(pairs[1].key, "wdir") || strcmp(pairs[1].val, "/tmp"), 0);
    CHECK(PMI_Free_keyvals(pairs, count), PMI_SUCCESS);
    CHECK(PMI_Free_keyvals(NULL, 1), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_options(NULL, &length), PMI_ERR_INVALID_ARG);
    CHECK(PMI_Get_options(text, NULL), PMI_ERR_INVALID_ARG);
    length = 0;
    CHECK(PMI_Get_options(text, &length), PMI_ERR_INVALID_LENGTH);
    length = 1;
    CHECK(PMI_Get_options(text, &length), PMI_ERR_NOMEM);
    CHECK(length > 1 && length <= (int)sizeof text, 1);
    CHECK(PMI_Get_options(text, &length), PMI_SUCCESS);
    CHECK((int)strlen(text) + 1, length);
}

static void names(void) {
    char service[32], port[1024];
    snprintf(service, sizeof service, "service-%d", rank);
    CHECK(PMI_Lookup_name(service, port), PMI_FAIL);
    CHECK(PMI_Publish_name(service, "port#1$"), PMI_SUCCESS);
    CHECK(PMI_Lookup_name(service, port), PMI_SUCCESS);
    CHECK(strcmp(port, "port#1$"), 0);
    CHECK(PMI_Unpublish_name(service), PMI_SUCCESS);
    CHECK(PMI_Lookup_name(service, port), PMI_FAIL);
}

/* A spawn that makes no job writes a code for each process that was requested. */
static void refused_spawn(void) {
    const char *commands[] = {"true", "/no/such/program"};
    int processes[] = {1, 2}, errors[] = {-7, -7, -7, -7};
    if (rank != 0)
        return;
    CHECK(PMI_Spawn_multiple(2, commands, NULL, processes, NULL, NULL, 0, NULL, errors), PMI_FAIL);
    CHECK(errors[1] == errors[2] && errors[1] != 0 && errors[1] != -7, 1);
    CHECK(errors[0] != -7 && errors[3] == -7, 1);
    CHECK(PMI_Spawn_multiple(2, commands, NULL, processes, NULL, NULL, 0, NULL, NULL), PMI_FAIL);
}

int main(int argc, char **argv) {
    int spawned = -7, number, has_names = 0, is_refused = 0, is_lonely = 0, i;
    for (i = 1; i < argc; i++) {
        has_names += strcmp(argv[i], "names") == 0;
        is_refused += strcmp(argv[i], "refused") == 0;
        is_lonely += strcmp(argv[i], "lonely") == 0;
    }
    without_session();
    options();
    CHECK(PMI_Init(NULL), PMI_ERR_INVALID_ARG);
    if (PMI_Init(&spawned) != PMI_SUCCESS)
        return 2;
    CHECK(spawned, PMI_FALSE);
    CHECK(PMI_Initialized(&number), PMI_SUCCESS);
    CHECK(number, PMI_TRUE);
    /* One more user of the same session. */
    CHECK(PMI_Init(&spawned), PMI_SUCCESS);
    CHECK(PMI_Get_rank(&rank), PMI_SUCCESS);
    CHECK(PMI_Get_size(&size), PMI_SUCCESS);
    CHECK(PMI_KVS_Get_my_name(kvsname, sizeof kvsname), PMI_SUCCESS);
    arguments();
    group();
    values();
    threads();
    child();
    if (has_names)
        names();
    if (is_refused)
        refused_spawn();
    CHECK(PMI_Barrier(), PMI_SUCCESS);
    CHECK(PMI_Finalize(), PMI_SUCCESS);
    CHECK(PMI_Get_rank(&number), PMI_SUCCESS);
    CHECK(PMI_Finalize(), PMI_SUCCESS);
    without_session();
    CHECK(PMI_Init(&spawned), is_lonely ? PMI_SUCCESS : PMI_FAIL);
    if (faults == 0)
        printf("rank %d of %d: all as expected\n", rank, size);
    return faults != 0;
}
