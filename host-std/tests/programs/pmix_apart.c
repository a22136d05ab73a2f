/* Makes the requests of its arguments about published data, one after the other, and prints their results:
 *     publish KEY VALUE RANGE PERSISTENCE, each a number or a name as in PMIX_RANGE_* and PMIX_PERSIST_*
 *     lookup KEY SECONDS      waits that long for the key; not at all with 0
 *     unpublish KEY
 *     line                    waits for a line of input
 * A status other than success is printed as its number. */
#include "pmix_common.h"

static int number_of(const char *word, const char *const names[], int count)
{
    for (int at = 0; at < count; at++)
        if (strcmp(word, names[at]) == 0)
            return at;
    holds(0, "all words are known");
    return 0;
}

static pmix_status_t publish(char **words)
{
    static const char *const ranges[] = {"undef", "rm", "local", "namespace", "session", "global"};
    static const char *const persistences[] = {"indef", "once", "proc", "app", "session"};
    pmix_data_range_t range = number_of(words[2], ranges, 6);
    pmix_persistence_t persistence = number_of(words[3], persistences, 5);
    pmix_info_t infos[3];

    PMIX_INFO_LOAD(&infos[0], words[0], words[1], PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    PMIX_INFO_LOAD(&infos[2], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
    return PMIx_Publish(infos, 3);
}

static pmix_status_t look_up(char **words, pmix_pdata_t *found)
{
    pmix_info_t infos[2];
    bool yes = true;
    int seconds = atoi(words[1]);

    PMIX_PDATA_CONSTRUCT(found);
    PMIX_LOAD_KEY(found->key, words[0]);
    PMIX_INFO_LOAD(&infos[0], PMIX_WAIT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    return PMIx_Lookup(found, 1, infos, seconds > 0 ? 2 : 0);
}

int main(int argc, char **argv)
{
    char line[80];

    begin();
    for (int at = 1; at < argc; at++) {
        const char *what = argv[at], *key = at + 1 < argc ? argv[at + 1] : "";
        pmix_status_t status = PMIX_SUCCESS;
        pmix_pdata_t found;

        if (strcmp(what, "line") == 0) {
            holds(fgets(line, sizeof line, stdin) != NULL, "there is a line");
            continue;
        } else if (strcmp(what, "publish") == 0) {
            status = publish(&argv[at + 1]);
            at += 4;
        } else if (strcmp(what, "unpublish") == 0) {
            char *keys[] = {argv[at + 1], NULL};
            status = PMIx_Unpublish(keys, NULL, 0);
            at += 1;
        } else {
            status = look_up(&argv[at + 1], &found);
            at += 2;
        }
        if (status != PMIX_SUCCESS)
            printf("%s %s: %d\n", what, key, status);
        else if (strcmp(what, "lookup") == 0)
            printf("%s %s: %s of rank %u\n", what, key, found.value.data.string, found.proc.rank);
        else
            printf("%s %s: done\n", what, key);
        fflush(stdout);
    }
    return finish();
}
