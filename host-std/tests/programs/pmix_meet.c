/* Meets a process of another launcher:
 *     pmix_meet OWN OTHER REQUEST...
 * publishes itself under OWN, and looks up the other, which has published itself under OTHER; an OTHER that
 * begins with '=' is the namespace itself. Then it makes these requests, and prints their results:
 *     put KEY VALUE       stores and commits a text
 *     connect SECONDS     connects with the other; 0 waits as long as it takes
 *     fence               has a fence with the other
 *     disconnect          ends the connection
 *     get KEY             the text, or number, of the other; of its job, if the key begins with pmix.job.
 *     say TEXT            prints it
 *     line                waits for a line of input
 * A status other than success is printed as its number. */
#include "pmix_common.h"

static pmix_proc_t both[2];

static void look_up(const char *key)
{
    pmix_pdata_t found;
    pmix_info_t info;
    bool yes = true;

    if (key[0] == '=') {
        PMIX_LOAD_PROCID(&both[1], key + 1, 0);
        return;
    }
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, key);
    PMIX_INFO_LOAD(&info, PMIX_WAIT, &yes, PMIX_BOOL);
    check(PMIx_Lookup(&found, 1, &info, 1), "lookup");
    both[1] = found.proc;
}

static pmix_status_t put(char *key, char *text)
{
    pmix_value_t value;

    PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
    check(PMIx_Put(PMIX_GLOBAL, key, &value), "put");
    return PMIx_Commit();
}

static pmix_status_t connect_both(int seconds)
{
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    return PMIx_Connect(both, 2, &info, seconds > 0 ? 1 : 0);
}

int main(int argc, char **argv)
{
    char line[80];
    pmix_info_t own;

    begin();
    both[0] = self;
    PMIX_INFO_LOAD(&own, argv[1], "here", PMIX_STRING);
    check(PMIx_Publish(&own, 1), "publish");
    look_up(argv[2]);
    for (int at = 3; at < argc; at++) {
        const char *what = argv[at];
        char *next = at + 1 < argc ? argv[at + 1] : "";
        pmix_value_t *value = NULL;
        const char *of = " ";
        pmix_status_t status;

        if (strcmp(what, "line") == 0) {
            holds(fgets(line, sizeof line, stdin) != NULL, "there is a line");
            continue;
        } else if (strcmp(what, "say") == 0) {
            puts(next);
            fflush(stdout);
            at += 1;
            continue;
        } else if (strcmp(what, "put") == 0) {
            status = put(next, argv[at + 2]);
            at += 2;
        } else if (strcmp(what, "connect") == 0) {
            status = connect_both(atoi(next));
            at += 1;
        } else if (strcmp(what, "fence") == 0) {
            status = PMIx_Fence(both, 2, NULL, 0);
            of = next = "";
        } else if (strcmp(what, "disconnect") == 0) {
            status = PMIx_Disconnect(both, 2, NULL, 0);
            of = next = "";
        } else {
            pmix_proc_t of_it = both[1];

            if (strncmp(next, "pmix.job.", 9) == 0)
                of_it.rank = PMIX_RANK_WILDCARD;
            status = PMIx_Get(&of_it, next, NULL, 0, &value);
            at += 1;
        }
        if (status != PMIX_SUCCESS)
            printf("%s%s%s: %d\n", what, of, next, status);
        else if (value != NULL && value->type == PMIX_STRING)
            printf("get %s: %s\n", next, value->data.string);
        else if (value != NULL)
            printf("get %s: %u\n", next, value->data.uint32);
        else
            printf("%s%s%s: done\n", what, of, next);
        fflush(stdout);
    }
    return finish();
}
