/* The least that serves a rank of put-fence-get: starts N ranks and answers PMI-1 without a space, a check or a limit.
 *
 *     canned-server N VALUE_BYTES PROGRAM ARGUMENT...
 *
 * It is the floor of docs/performance.md: one process, one epoll instance, one read and one write for each message. A
 * get is answered by the value that put-fence-get expects of the rank in the key. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, EVENTS = 64 };

struct rank {
    int fd;
    size_t len;
    char line[LINE_MAX_BYTES];
};

static struct rank *ranks;
static int size, inside, value_len;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void reply(const struct rank *rank, const char *line, size_t len)
{
    if (write(rank->fd, line, len) != (ssize_t)len)
        fail("write");
}

static void reply_value(const struct rank *rank, const char *key)
{
    static char line[LINE_MAX_BYTES] = "cmd=get_result rc=0 value=";
    static size_t prefix;
    if (!prefix) {
        prefix = strlen(line);
        memset(line + prefix, 'v', value_len);
        line[prefix + value_len] = '\n';
    }
    char digits[9];
    snprintf(digits, sizeof digits, "%08ld", strtol(key, NULL, 10));
    memcpy(line + prefix, digits, value_len < 8 ? value_len : 8);
    reply(rank, line, prefix + value_len + 1);
}

#define REPLY(rank, text) reply(rank, text, sizeof text - 1)

static void serve(struct rank *rank, char *line)
{
    if (!strncmp(line, "cmd=put ", 8)) {
        REPLY(rank, "cmd=put_result rc=0 msg=success\n");
    } else if (!strncmp(line, "cmd=get ", 8)) {
        reply_value(rank, strstr(line, "key=r") + 5);
    } else if (!strncmp(line, "cmd=barrier_in", 14)) {
        if (++inside == size) {
            inside = 0;
            for (int i = 0; i < size; i++)
                REPLY(&ranks[i], "cmd=barrier_out\n");
        }
    } else if (!strncmp(line, "cmd=init", 8)) {
        REPLY(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    } else if (!strncmp(line, "cmd=get_my_kvsname", 18)) {
        REPLY(rank, "cmd=my_kvsname kvsname=kvs_1\n");
    } else if (!strncmp(line, "cmd=finalize", 12)) {
        REPLY(rank, "cmd=finalize_ack\n");
    } else {
        fprintf(stderr, "canned-server: no answer to: %s\n", line);
        exit(1);
    }
}

/* Returns 0 at the end of the connection. */
static int receive(struct rank *rank)
{
    ssize_t got = read(rank->fd, rank->line + rank->len, sizeof rank->line - rank->len - 1);
    if (got <= 0)
        return 0;
    rank->len += got;
    rank->line[rank->len] = 0;
    char *from = rank->line, *end;
    while ((end = memchr(from, '\n', rank->line + rank->len - from))) {
        *end = 0;
        serve(rank, from);
        from = end + 1;
    }
    rank->len -= from - rank->line;
    memmove(rank->line, from, rank->len);
    return 1;
}

static void start(int number, int epoll, char **command, char **environment)
{
    int pair[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    char variable[32];
    snprintf(variable, sizeof variable, "PMI_RANK=%d", number);
    environment[0] = variable;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        fail("socketpair");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 3);
    if (posix_spawnp(&pid, command[0], &actions, NULL, command, environment))
        fail(command[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    ranks[number].fd = pair[0];
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = number };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event))
        fail("epoll_ctl");
}

int main(int argc, char **argv)
{
    extern char **environ;
    if (argc < 4 || (size = atoi(argv[1])) < 1 || (value_len = atoi(argv[2])) < 0 || value_len > LINE_MAX_BYTES - 64) {
        fprintf(stderr, "usage: canned-server N VALUE_BYTES PROGRAM ARGUMENT...\n");
        return 2;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int count = 0;
    while (environ[count])
        count++;
    char sizes[32], **environment = calloc(count + 4, sizeof *environment);
    snprintf(sizes, sizeof sizes, "PMI_SIZE=%d", size);
    environment[1] = sizes;
    environment[2] = "PMI_FD=3";
    memcpy(environment + 3, environ, count * sizeof *environ);
    ranks = calloc(size, sizeof *ranks);
    /* 3 is the descriptor of a rank; dup2 onto itself would keep close-on-exec. */
    int placeholder = dup(0), epoll = epoll_create1(EPOLL_CLOEXEC), open = size, status, result = 0;
    (void)placeholder;
    for (int i = 0; i < size; i++)
        start(i, epoll, argv + 3, environment);
    while (open > 0) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            struct rank *rank = &ranks[events[i].data.u32];
            if (!receive(rank)) {
                close(rank->fd);
                open--;
            }
        }
    }
    while (wait(&status) > 0)
        result |= !WIFEXITED(status) || WEXITSTATUS(status);
    return result;
}
