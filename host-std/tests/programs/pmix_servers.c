/* A tool of two launchers: it attaches to the second, and sends requests to each in turn. */
#include "pmix_common.h"
#include <pmix_tool.h>

/* True if the job is known to the server that requests go to. */
static bool is_known(const char *nspace)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    size_t count = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    check(pmix_argv_append_nosize(&query.keys, PMIX_QUERY_NAMESPACES), "one more key");
    check(PMIx_Query_info(&query, 1, &found, &count), "name spaces");
    holds(count == 1, "there is one entry");
    return strstr(found->value.data.string, nspace) != NULL;
}

/* pmix_servers PID JOB PID JOB */
int main(int argc, char **argv)
{
    pmix_info_t info;
    pmix_proc_t first, second, *servers = NULL;
    size_t count = 0;
    pid_t pid = atoi(argv[1]);

    holds(argc == 5, "two launchers are named");
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
    check(PMIx_tool_init(&self, &info, 1), "init");
    holds(is_known(argv[2]) && !is_known(argv[4]), "the first launcher is asked");
    check(PMIx_tool_get_servers(&servers, &count), "one server");
    holds(count == 1, "one server is known");
    first = servers[0];
    pid = atoi(argv[3]);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
    check(PMIx_tool_attach_to_server(NULL, &second, &info, 1), "attach");
    check(PMIx_tool_get_servers(&servers, &count), "two servers");
    printf("%zu servers\n", count);
    check(PMIx_tool_set_server(&second, NULL, 0), "the second server");
    holds(is_known(argv[4]) && !is_known(argv[2]), "the second launcher is asked");
    check(PMIx_tool_set_server(&first, NULL, 0), "the first server");
    holds(is_known(argv[2]) && !is_known(argv[4]), "the first launcher is asked again");
    check(PMIx_tool_disconnect(&second), "disconnect");
    check(PMIx_tool_get_servers(&servers, &count), "the server that is left");
    holds(count == 1 && PMIX_CHECK_PROCID(&servers[0], &first), "one server is left");
    holds(is_known(argv[2]) && !is_known(argv[4]), "the first launcher answers without the second");
    check(PMIx_tool_finalize(), "finalize");
    printf("done\n");
    return 0;
}
