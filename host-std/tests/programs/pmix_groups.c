/* Groups of PMIx clients.
 *     pmix_groups construct   two groups one after the other: all, and all but rank 0; members are named by their
 *                             groups in fences, and what each brings is found by the others, by the number
 *                             of the group
 *     pmix_groups invite      rank 0 invites all, or
 *     pmix_groups invite most all but the last rank, to a group, and they join; the group is named in fences
 *     pmix_groups optional    rank 1 dies instead of coming
 *     pmix_groups timeout     rank 1 does not come
 * An alarm ends whoever waits in vain. */
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t self;
static uint32_t size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int registered, invited, is_complete;
static pmix_proc_t inviter;

static void check(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "rank %u: %s: %s\n", self.rank, what, PMIx_Error_string(status));
        exit(3);
    }
}

static void line(const char *text)
{
    printf("rank %u %s\n", self.rank, text);
    fflush(stdout);
}

/* Makes a group of ranks `first` and above, and looks at what its members have brought. */
static void construct(const char *name, uint32_t first, size_t base)
{
    uint32_t count = size - first;
    pmix_proc_t *members = calloc(count, sizeof *members);
    pmix_proc_t whole, two[2];
    pmix_info_t infos[2], own, wanted, *results = NULL;
    pmix_data_array_t brought = {PMIX_INFO, 1, &own};
    size_t mine = base + self.rank, number = 0, nresults = 0, sum = 0;
    pmix_value_t *found;
    char text[100];
    bool yes = true;

    for (uint32_t i = 0; i < count; i++)
        PMIX_PROC_LOAD(&members[i], self.nspace, first + i);
    PMIX_INFO_LOAD(&own, PMIX_GROUP_LOCAL_CID, &mine, PMIX_SIZE);
    PMIX_INFO_LOAD(&infos[0], PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_GROUP_INFO, &brought, PMIX_DATA_ARRAY);
    check(PMIx_Group_construct(name, members, count, infos, 2, &results, &nresults), "construct");
    for (size_t i = 0; i < nresults; i++)
        if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID))
            number = results[i].value.data.size;
    check(PMIx_Fence(members, count, NULL, 0), "fence of the group");
    /* The last one names all members, the others their group. */
    PMIX_PROC_LOAD(&whole, name, PMIX_RANK_WILDCARD);
    if (self.rank + 1 == size)
        check(PMIx_Fence(members, count, NULL, 0), "fence of the members");
    else
        check(PMIx_Fence(&whole, 1, NULL, 0), "fence by the name of the group");
    /* The first two, by their places in the group. */
    PMIX_PROC_LOAD(&two[0], name, 0);
    PMIX_PROC_LOAD(&two[1], name, 1);
    if (self.rank < first + 2)
        check(PMIx_Fence(two, 2, NULL, 0), "fence by places in the group");
    PMIX_PROC_LOAD(&two[1], name, count);
    if (PMIx_Fence(two, 2, NULL, 0) != PMIX_ERR_NOT_FOUND)
        line("is in a fence with nobody");
    PMIX_INFO_LOAD(&wanted, PMIX_GROUP_CONTEXT_ID, &number, PMIX_SIZE);
    PMIX_INFO_SET_QUALIFIER(&wanted);
    for (uint32_t i = 0; i < count; i++) {
        check(PMIx_Get(&members[i], PMIX_GROUP_LOCAL_CID, &wanted, 1, &found), "get");
        sum += found->data.size;
        PMIX_VALUE_RELEASE(found);
    }
    check(PMIx_Group_destruct(name, NULL, 0), "destruct");
    snprintf(text, sizeof text, "is in %s, number %zu, brought: %zu", name, number, sum);
    line(text);
    free(members);
}

static void is_registered(pmix_status_t status, size_t id, void *data)
{
    (void)id, (void)data;
    check(status, "register");
    pthread_mutex_lock(&lock);
    registered++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)info, (void)ninfo, (void)results, (void)nresults;
    pthread_mutex_lock(&lock);
    if (code == PMIX_GROUP_INVITED) {
        inviter = *source;
        invited++;
    } else {
        is_complete++;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (done != NULL)
        done(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
}

static void wait_for(int *what)
{
    pthread_mutex_lock(&lock);
    while (*what == 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* Enters a fence of all members of the group. */
static void fence_of_friends(const char *what)
{
    pmix_proc_t whole;

    PMIX_PROC_LOAD(&whole, "friends", PMIX_RANK_WILDCARD);
    check(PMIx_Fence(&whole, 1, NULL, 0), what);
}

static void invite(uint32_t count)
{
    pmix_status_t codes[] = {PMIX_GROUP_INVITED, PMIX_GROUP_CONSTRUCT_COMPLETE};
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    pmix_proc_t *friends = calloc(count, sizeof *friends), all;

    if (self.rank > 0) {
        PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, is_registered, NULL);
        wait_for(&registered);
    }
    check(PMIx_Fence(NULL, 0, NULL, 0), "fence");
    for (uint32_t i = 0; i < count; i++)
        PMIX_PROC_LOAD(&friends[i], self.nspace, i);
    PMIX_PROC_LOAD(&all, self.nspace, PMIX_RANK_WILDCARD);
    if (self.rank == 0) {
        if (count == size)
            check(PMIx_Group_invite("friends", &all, 1, NULL, 0, &results, &nresults), "invite");
        else
            check(PMIx_Group_invite("friends", friends, count, NULL, 0, &results, &nresults), "invite");
        fence_of_friends("fence of the inviter");
        line("has its friends together");
    } else if (self.rank < count) {
        wait_for(&invited);
        check(PMIx_Group_join("friends", &inviter, PMIX_GROUP_ACCEPT, NULL, 0, &results, &nresults), "join");
        /* The group need not be complete yet. */
        fence_of_friends("fence of a member");
        wait_for(&is_complete);
        line("has come");
    }
    if (self.rank < count) {
        fence_of_friends("fence of the complete group");
        check(PMIx_Fence(friends, count, NULL, 0), "fence of the members");
    }
    check(PMIx_Fence(NULL, 0, NULL, 0), "fence");
    if (self.rank >= count) {
        PMIX_PROC_LOAD(&all, "friends", PMIX_RANK_WILDCARD);
        if (PMIx_Fence(&all, 1, NULL, 0) == PMIX_ERR_NOT_FOUND)
            line("is no friend");
    }
    free(friends);
}

static void absent(const char *key, pmix_data_type_t type)
{
    pmix_info_t info, *results = NULL;
    size_t nresults = 0;
    pmix_proc_t all;
    char text[100];
    bool yes = true;
    int second = 1;

    check(PMIx_Fence(NULL, 0, NULL, 0), "fence");
    if (self.rank == 1) {
        if (type == PMIX_BOOL)
            raise(SIGKILL);
    } else {
        PMIX_PROC_LOAD(&all, self.nspace, PMIX_RANK_WILDCARD);
        PMIX_INFO_LOAD(&info, key, type == PMIX_BOOL ? (void *)&yes : (void *)&second, type);
        pmix_status_t status = PMIx_Group_construct("ours", &all, 1, &info, 1, &results, &nresults);
        snprintf(text, sizeof text, "is answered %d", status);
        line(text);
    }
    if (type != PMIX_BOOL)
        check(PMIx_Fence(NULL, 0, NULL, 0), "fence");
}

int main(int argc, char **argv)
{
    pmix_value_t *found;
    pmix_proc_t job;

    alarm(30);
    check(PMIx_Init(&self, NULL, 0), "init");
    PMIX_PROC_LOAD(&job, self.nspace, PMIX_RANK_WILDCARD);
    check(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &found), "size");
    size = found->data.uint32;
    PMIX_VALUE_RELEASE(found);
    if (strcmp(argv[1], "construct") == 0) {
        construct("all", 0, 1000);
        if (self.rank > 0)
            construct("most", 1, 2000);
    } else if (strcmp(argv[1], "invite") == 0) {
        invite(argc > 2 ? size - 1 : size);
    } else if (strcmp(argv[1], "optional") == 0) {
        absent(PMIX_GROUP_OPTIONAL, PMIX_BOOL);
    } else {
        absent(PMIX_TIMEOUT, PMIX_INT);
    }
    PMIx_Finalize(NULL, 0);
    return 0;
}
