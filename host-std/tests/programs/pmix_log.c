/* Has lines written, also where a launcher has nothing to write to. */
#include "pmix_common.h"

int main(int argc, char **argv)
{
    pmix_info_t data[2], severity;
    int warning = 4;

    begin();
    if (argc > 1 && strcmp(argv[1], "system") == 0) {
        PMIX_INFO_LOAD(&data[0], PMIX_LOG_SYSLOG, "to the system\n", PMIX_STRING);
        check(PMIx_Log(data, 1, NULL, 0), "log to the system");
        PMIX_INFO_LOAD(&data[0], PMIX_LOG_LOCAL_SYSLOG, "to the host", PMIX_STRING);
        PMIX_INFO_LOAD(&severity, PMIX_LOG_SYSLOG_PRI, &warning, PMIX_INT);
        check(PMIx_Log(data, 1, &severity, 1), "log to the host");
        return finish();
    }
    printf("before\n");
    fflush(stdout);
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_STDOUT, "to the output", PMIX_STRING);
    check(PMIx_Log(data, 1, NULL, 0), "log to stdout");
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_STDERR, "to the errors\n", PMIX_STRING);
    check(PMIx_Log(data, 1, NULL, 0), "log to stderr");
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_GLOBAL_DATASTORE, "nowhere", PMIX_STRING);
    expect(PMIx_Log(data, 1, NULL, 0), PMIX_ERR_NOT_SUPPORTED, "log to a store");
    PMIX_INFO_LOAD(&data[1], PMIX_LOG_STDOUT, "a part", PMIX_STRING);
    expect(PMIx_Log(data, 2, NULL, 0), PMIX_ERR_PARTIAL_SUCCESS, "log to both");
    return finish();
}
