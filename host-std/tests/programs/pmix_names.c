/* Publishes and looks up. Rank 0 publishes, the others wait for it; two ranks at least. */
#include "pmix_common.h"

static pmix_status_t publish(const char *key, const char *value, pmix_data_range_t range)
{
    pmix_info_t infos[2];

    PMIX_INFO_LOAD(&infos[0], key, value, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    return PMIx_Publish(infos, 2);
}

static pmix_status_t look_up(const char *key, int seconds, pmix_pdata_t *found)
{
    pmix_info_t infos[2];
    bool yes = true;

    PMIX_PDATA_CONSTRUCT(found);
    PMIX_LOAD_KEY(found->key, key);
    PMIX_INFO_LOAD(&infos[0], PMIX_WAIT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    return PMIx_Lookup(found, 1, infos, seconds > 0 ? 2 : 0);
}

int main(void)
{
    pmix_pdata_t found;
    char *keys[] = {"port", NULL};

    begin();
    if (self.rank == 0) {
        usleep(100000);
        check(publish("port", "4711", PMIX_RANGE_SESSION), "publish");
        expect(publish("port", "4712", PMIX_RANGE_SESSION), PMIX_ERR_DUPLICATE_KEY, "publish again");
        check(publish("mine", "1", PMIX_RANGE_PROC_LOCAL), "publish for oneself");
        check(look_up("mine", 0, &found), "look up one's own");
    } else {
        check(look_up("port", 30, &found), "wait for it");
        holds(found.proc.rank == 0 && strcmp(found.value.data.string, "4711") == 0, "rank 0 said 4711");
        expect(look_up("mine", 0, &found), PMIX_ERR_NOT_FOUND, "look up what is another's");
        expect(look_up("nothing", 1, &found), PMIX_ERR_TIMEOUT, "wait for nothing");
    }
    meet();
    if (self.rank == 0)
        check(PMIx_Unpublish(keys, NULL, 0), "unpublish");
    meet();
    expect(look_up("port", 0, &found), PMIX_ERR_NOT_FOUND, "look up what is gone");
    say("names come and go");
    return finish();
}
