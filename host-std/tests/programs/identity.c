/* A client of the launcher by one way in, from a situation that it makes itself. Words: the way in, then
 *   undumpable   nobody but root may read its descriptors
 *   daemon       it has left its session and its parent
 *   taken        its connection is that of the process in RANK_PID
 * Prints "admitted" or "refused". With PMIX defined it uses the library of PMIx, else that of PMI. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The library of PMIx waits for ever now and then after it has read that it is refused. */
static void is_late(int number)
{
    static const char word[] = "refused\n";
    (void)number;
    _exit(write(STDOUT_FILENO, word, sizeof word - 1) < 0);
}

#ifdef PMIX
#include <pmix_tool.h>

static int is_rank(void)
{
    pmix_proc_t self;
    return PMIx_Init(&self, NULL, 0) == PMIX_SUCCESS && PMIx_Finalize(NULL, 0) == PMIX_SUCCESS;
}

static int is_tool(void)
{
    pmix_proc_t self;
    pmix_info_t server;
    /* A tool has nothing of the rank that starts it. */
    for (char **entry = environ; *entry;) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, "PMIX_", 5) == 0 && unsetenv(name) == 0)
            entry = environ;
        else
            entry++;
    }
    PMIX_INFO_LOAD(&server, PMIX_SERVER_URI, getenv("TOOL_URI"), PMIX_STRING);
    return PMIx_tool_init(&self, &server, 1) == PMIX_SUCCESS && PMIx_tool_finalize() == PMIX_SUCCESS;
}

static int is_in(const char *way)
{
    return strcmp(way, "tool") == 0 ? is_tool() : is_rank();
}
#else
#include <pmi.h>

/* True if the server answers `line` by one that begins with `answer`. */
static int is_answered(int server, const char *line, const char *answer)
{
    char byte, found[512] = "";
    size_t len = 0;
    if (write(server, line, strlen(line)) < 0)
        return 0;
    while (len < sizeof found - 1 && read(server, &byte, 1) == 1 && byte != '\n')
        found[len++] = byte;
    return strncmp(found, answer, strlen(answer)) == 0;
}

static int speaks(int server)
{
    return is_answered(server, "cmd=init pmi_version=1 pmi_subversion=1\n",
                       "cmd=response_to_init rc=0") &&
           is_answered(server, "cmd=finalize\n", "cmd=finalize_ack");
}

static int is_in_by_port(const char *id)
{
    char line[64];
    struct sockaddr_in to = {.sin_family = AF_INET};
    int server = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_port = htons(atoi(strrchr(getenv("PMI_PORT"), ':') + 1));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    snprintf(line, sizeof line, "cmd=initack pmiid=%s\n", id);
    return connect(server, (struct sockaddr *)&to, sizeof to) == 0 &&
           is_answered(server, line, "cmd=initack rc=0") && is_answered(server, "", "cmd=set") &&
           is_answered(server, "", "cmd=set") && is_answered(server, "", "cmd=set") && speaks(server);
}

static int is_in_by_snapshot(void)
{
    int spawned;
    char space[256], value[64];
    return PMI_Init(&spawned) == PMI_SUCCESS &&
           PMI_KVS_Get_my_name(space, sizeof space) == PMI_SUCCESS &&
           PMI_KVS_Put(space, "key", "value") == PMI_SUCCESS && PMI_Barrier() == PMI_SUCCESS &&
           PMI_KVS_Get(space, "key", value, sizeof value) == PMI_SUCCESS &&
           strcmp(value, "value") == 0 && PMI_Finalize() == PMI_SUCCESS;
}

static int is_in(const char *way)
{
    if (strcmp(way, "port") == 0)
        return is_in_by_port(getenv("PMI_ID"));
    if (strcmp(way, "listen") == 0)
        return is_in_by_port("1");
    return strcmp(way, "snapshot") == 0 ? is_in_by_snapshot() : speaks(atoi(getenv("PMI_FD")));
}
#endif

static void leave(void)
{
    if (fork() > 0)
        _exit(0);
    setsid();
    if (fork() > 0)
        _exit(0);
    while (getppid() == getsid(0))
        usleep(1000);
}

/* Takes the connection of a rank; false if the system does not permit it. */
static int takes(void)
{
    char number[16];
    int rank = syscall(SYS_pidfd_open, atoi(getenv("RANK_PID")), 0);
    int taken = syscall(SYS_pidfd_getfd, rank, atoi(getenv("PMI_FD")), 0);
    snprintf(number, sizeof number, "%d", taken);
    setenv("PMI_FD", number, 1);
    return taken >= 0;
}

int main(int argc, char **argv)
{
    int may_try = 1;
    for (int at = 2; at < argc; at++) {
        if (strcmp(argv[at], "undumpable") == 0)
            prctl(PR_SET_DUMPABLE, 0);
        if (strcmp(argv[at], "daemon") == 0)
            leave();
        if (strcmp(argv[at], "taken") == 0)
            may_try = takes();
    }
    signal(SIGALRM, is_late);
    signal(SIGPIPE, SIG_IGN);
    alarm(3);
    printf("%s\n", may_try && is_in(argv[1]) ? "admitted" : "refused");
    fflush(stdout);
    _exit(0);
}
