/* Speaks PMI-1 without a library: in each of several rounds, every rank puts a new key and replaces a common
   one of its own, and reads those of all ranks after the fence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fd;

static void fail(const char *what, const char *line) {
    fprintf(stderr, "rank %s: %s: %s\n", getenv("PMI_RANK"), what, line);
    exit(1);
}

/* Sends a request and returns the answer, which has to begin with this text. */
static char *ask(const char *request, const char *expected) {
    static char line[4096];
    size_t length = 0;
    if (write(fd, request, strlen(request)) < 0) fail("write", request);
    do {
        if (length == sizeof line - 1 || read(fd, line + length, 1) != 1) fail("read", request);
    } while (line[length++] != '\n');
    line[length - 1] = 0;
    if (strncmp(line, expected, strlen(expected))) fail(request, line);
    return line;
}

static void check(const char *space, const char *key, const char *value) {
    char request[256], expected[64];
    snprintf(request, sizeof request, "cmd=get kvsname=%s key=%s\n", space, key);
    snprintf(expected, sizeof expected, "value=%s", value);
    char *answer = ask(request, "cmd=get_result rc=0");
    char *found = strstr(answer, "value=");
    if (!found || strncmp(found, expected, strlen(expected))) fail(key, answer);
}

int main(void) {
    int rank = atoi(getenv("PMI_RANK")), size = atoi(getenv("PMI_SIZE"));
    char space[64], request[256], key[32], value[32];
    fd = atoi(getenv("PMI_FD"));
    ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init");
    char *name = strstr(ask("cmd=get_my_kvsname\n", "cmd=my_kvsname"), " kvsname=");
    if (!name || sscanf(name, " kvsname=%63s", space) != 1) fail("name of the space", "");
    for (int round = 0; round < 20; round++) {
        snprintf(request, sizeof request, "cmd=put kvsname=%s key=k%d-%d value=v%d-%d\n", space, rank, round,
                 rank, round);
        ask(request, "cmd=put_result rc=0");
        snprintf(request, sizeof request, "cmd=put kvsname=%s key=own%d value=r%d\n", space, rank, round);
        ask(request, "cmd=put_result rc=0");
        ask("cmd=barrier_in\n", "cmd=barrier_out");
        for (int other = 0; other < size; other++) {
            snprintf(key, sizeof key, "k%d-%d", other, round / 2);
            snprintf(value, sizeof value, "v%d-%d", other, round / 2);
            check(space, key, value);
            snprintf(key, sizeof key, "own%d", other);
            snprintf(value, sizeof value, "r%d", round);
            check(space, key, value);
        }
        ask("cmd=barrier_in\n", "cmd=barrier_out");
    }
    ask("cmd=finalize\n", "cmd=finalize_ack");
    return 0;
}
