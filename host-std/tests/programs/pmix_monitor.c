/* Rank 0 has its heartbeats watched, sends some, then none for longer than it has announced. Rank 1 is told,
   unless rank 0 has cancelled that. With "file" and a path, rank 0 announces that the file grows, twice, cancels one
   of the two monitors, and does nothing more. Two ranks. */
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

static pmix_status_t watch_file(const char *path, pmix_status_t code, const char *id, uint32_t drops)
{
    pmix_info_t what, how[4], *results = NULL;
    size_t count = 0;
    uint32_t every = 1;
    bool yes = true;

    PMIX_INFO_LOAD(&what, PMIX_MONITOR_FILE, path, PMIX_STRING);
    PMIX_INFO_LOAD(&how[0], PMIX_MONITOR_FILE_CHECK_TIME, &every, PMIX_UINT32);
    PMIX_INFO_LOAD(&how[1], PMIX_MONITOR_FILE_DROPS, &drops, PMIX_UINT32);
    PMIX_INFO_LOAD(&how[2], PMIX_MONITOR_ID, id, PMIX_STRING);
    PMIX_INFO_LOAD(&how[3], PMIX_MONITOR_FILE_SIZE, &yes, PMIX_BOOL);
    return PMIx_Process_monitor(&what, code, how, path[0] ? 4 : 3, &results, &count);
}

static volatile bool was_told;
static pmix_status_t expected = PMIX_MONITOR_HEARTBEAT_ALERT;

static void note(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                 size_t ninfo, pmix_info_t *results, size_t nresults,
                 pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) handler, (void) info, (void) ninfo, (void) results, (void) nresults;
    holds(status == expected && source->rank == 0, "it is about rank 0");
    was_told = true;
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

int main(int argc, char **argv)
{
    bool yes = true;

    begin();
    expect(watch("pmix.monitor.else", "/etc/hosts", PMIX_STRING, 2), PMIX_ERR_NOT_SUPPORTED, "else");
    expect(watch_file("", PMIX_MONITOR_FILE_ALERT, "none", 2), PMIX_ERR_BAD_PARAM, "no file");
    if (argc > 2) {
        pmix_status_t codes[] = {PMIX_MONITOR_HEARTBEAT_ALERT, PMIX_MONITOR_FILE_ALERT};
        expected = PMIX_MONITOR_FILE_ALERT;
        if (self.rank == 0) {
            check(watch_file(argv[2], PMIX_MONITOR_HEARTBEAT_ALERT, "ours", 3), "the first file monitor");
            check(watch_file(argv[2], PMIX_MONITOR_FILE_ALERT, "theirs", 5), "the second file monitor");
            check(watch(PMIX_MONITOR_CANCEL, "ours", PMIX_STRING, 2), "cancel");
        } else {
            holds(PMIx_Register_event_handler(codes, 2, NULL, 0, note, NULL, NULL) >= 0, "events are");
            while (!was_told)
                usleep(1000);
            say("rank 0 has left its file alone");
        }
    } else if (self.rank == 0) {
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
    return finish();
}
