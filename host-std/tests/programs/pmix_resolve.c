/* Asks who is where, in every way there is: by name, by description, of nodes and of applications. */
#include "pmix_common.h"

/* A get about a realm; the key is looked for there. */
static pmix_status_t about(const char *realm, const char *name, const void *which,
                           pmix_data_type_t type, const char *key, pmix_value_t **found)
{
    pmix_info_t infos[2];
    bool yes = true;

    PMIX_INFO_LOAD(&infos[0], realm, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], name, which, type);
    return PMIx_Get(&everybody, key, infos, 2, found);
}

int main(int argc, char **argv)
{
    pmix_proc_t *peers;
    pmix_value_t *found;
    size_t count;
    char *nodes, host[256], *node = getenv("PMIX_HOSTNAME");
    uint32_t size, first = 0, missing = 77;

    (void)argv;
    begin();
    check(PMIx_Get(&everybody, PMIX_JOB_SIZE, NULL, 0, &found), "job size");
    size = found->data.uint32;
    snprintf(host, sizeof host, "%s", node);

    check(PMIx_Resolve_peers(host, self.nspace, &peers, &count), "peers");
    holds(count == size, "all are on this node");
    for (size_t at = 0; at < count; at++)
        holds(PMIX_CHECK_NSPACE(peers[at].nspace, self.nspace) && peers[at].rank == at, "it is one of us");
    PMIX_PROC_FREE(peers, count);
    check(PMIx_Resolve_nodes(self.nspace, &nodes), "nodes");
    holds(strcmp(nodes, host) == 0, "this is the only node");

    check(about(PMIX_NODE_INFO, PMIX_HOSTNAME, host, PMIX_STRING, PMIX_LOCAL_SIZE, &found), "node");
    holds(found->data.uint32 == size, "the node has all");
    check(about(PMIX_NODE_INFO, PMIX_NODEID, &first, PMIX_UINT32, PMIX_LOCAL_PEERS, &found), "node 0");
    holds(found->type == PMIX_STRING && found->data.string[0] == '0', "rank 0 is on it");
    /* Libraries from 5.0 on do not find the id of a node by its name, under prterun either. */
    if (argc == 1) {
        check(about(PMIX_NODE_INFO, PMIX_HOSTNAME, host, PMIX_STRING, PMIX_NODEID, &found), "id of the node");
        holds(found->data.uint32 == 0, "it is node 0");
    }
    check(PMIx_Get(&everybody, PMIX_NODEID, NULL, 0, &found), "node of the job");
    holds(found->data.uint32 == 0, "the job is on node 0");
    check(PMIx_Get(&self, PMIX_NODEID, NULL, 0, &found), "own node");
    holds(found->data.uint32 == 0, "this rank is on node 0");
    check(about(PMIX_APP_INFO, PMIX_APPNUM, &first, PMIX_UINT32, PMIX_APP_SIZE, &found), "application 0");
    holds(found->data.uint32 == size, "the application has all");
    holds(about(PMIX_APP_INFO, PMIX_APPNUM, &missing, PMIX_UINT32, PMIX_APP_SIZE, &found) != 0,
          "there is no application 77");
    holds(about(PMIX_NODE_INFO, PMIX_HOSTNAME, "elsewhere", PMIX_STRING, PMIX_LOCAL_SIZE, &found) != 0,
          "there is no other node");
    say("all ranks are here");
    return finish();
}
