/* Rank 0 has its heartbeats watched, sends some, then none for longer than it has announced. Rank 1 is told,
   unless rank 0 has cancelled that. Two ranks. */
#include "pmix_common.h"

static pmix_status_t watch(const char *key, const void *value, pmix_data_type_t type, uint32_t drops)
{
    pmix_info_t what, how[3], *results = NULL;
    size_t count = 0;
    uint32_t every = 1;

    PMIX_INFO_LOAD(&what, key, value, type);
    PMIX_INFO_LOAD(&how[0], PMIX_MONITOR_HEARTBEAT_TIME, &every, PMIX_UINT32);
    PMIX_INFO_LOAD(&how[1], PMIX_MONITOR_HEARTBEAT_DROPS, &drops, PMIX_UINT32);
    PMIX_INFO_LOAD(&how[2], PMIX_MONITOR_ID, "ours", PMIX_STRING);
    return PMIx_Process_monitor(&what, PMIX_MONITOR_HEARTBEAT_ALERT, how, 3, &results, &count);
}

static volatile bool was_told;

static void note(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                 size_t ninfo, pmix_info_t *results, size_t nresults,
                 pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) handler, (void) info, (void) ninfo, (void) results, (void) nresults;
    holds(status == PMIX_MONITOR_HEARTBEAT_ALERT && source->rank == 0, "it is about rank 0");
    was_told = true;
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

int main(int argc, char **argv)
{
    bool yes = true;

    begin();
    expect(watch(PMIX_MONITOR_FILE, "/etc/hosts", PMIX_STRING, 2), PMIX_ERR_NOT_SUPPORTED, "a file");
    if (self.rank == 0) {
        check(watch(PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL, 2), "monitor");
        for (int at = 0; at < 6; at++) {
            PMIx_Heartbeat();
            usleep(500000);
        }
        say("beat six times");
        if (argc > 1) {
            check(watch(PMIX_MONITOR_CANCEL, "ours", PMIX_STRING, 2), "cancel");
            say("cancelled");
        }
        sleep(3);
    } else if (argc == 1) {
        pmix_status_t code = PMIX_MONITOR_HEARTBEAT_ALERT;
        holds(PMIx_Register_event_handler(&code, 1, NULL, 0, note, NULL, NULL) >= 0, "we may be told");
        while (!was_told)
            usleep(1000);
        say("rank 0 was not received");
    }
    meet();
    (void) argv;
    return finish();
}
