/* A launcher around libpmi_server: launcher N PROGRAM ARGUMENTS... */
#define _GNU_SOURCE
#include <pmi_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 1000 };
static pid_t children[RANKS_MAX];
static int started, code;

/* Adds a job and starts its processes, each with its connection as standard input. */
static int start(pmi_server *s, pmi_server_job *job, const pmi_server_program *of, int count, uint32_t *id) {
    int size = 0, ours[RANKS_MAX], theirs[RANKS_MAX], pair[2];
    char *const *arguments[RANKS_MAX], text[16];
    for (; count-- > 0; of++)
        for (int n = 0; n < of->processes; n++, size++) {
            if (started + size == RANKS_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
                return PMI_SERVER_FAIL;
            ours[size] = pair[0], theirs[size] = pair[1], arguments[size] = (char *const *)of->arguments;
        }
    snprintf(text, sizeof text, "kvs_%d", started), job->name = text;
    int made = pmi_server_add_job(s, job, size, ours, id);
    for (int rank = 0; rank < size; close(theirs[rank++]))
        if (made == PMI_SERVER_SUCCESS && (children[started++] = fork()) == 0) {
            dup2(theirs[rank], 0), setenv("PMI_FD", "0", 1), setenv("PMI_SNAPSHOT", "1", 1);
            setenv("PMI_SPAWNED", job->spawner ? "1" : "0", 1);
            snprintf(text, sizeof text, "%d", rank), setenv("PMI_RANK", text, 1);
            snprintf(text, sizeof text, "%d", size), setenv("PMI_SIZE", text, 1);
            execvp(arguments[rank][0], arguments[rank]), _exit(127);
        }
    return made;
}

static void on_spawn(pmi_server *s, void *context, const pmi_server_spawn *spawn) {
    pmi_server_job job = {"", 0, NULL, &spawn->job, spawn->preput_count, spawn->preputs};
    uint32_t id;
    int made = start(s, &job, spawn->programs, spawn->program_count, &id);
    pmi_server_answer_spawn(s, spawn->id, made == PMI_SERVER_SUCCESS ? &id : context);
}

static void on_abort(pmi_server *s, void *context, uint32_t job, int rank, int exits, int all, const char *m) {
    (void)s, (void)context, (void)job, (void)rank, (void)all, (void)m, code = exits;
    for (int i = 0; i < started; i++)
        kill(children[i], SIGKILL);
}

int main(int argc, char **argv) {
    pmi_server_program program = {(const char **)argv + 2, argc > 2 ? atoi(argv[1]) : 0, 0, NULL};
    pmi_server_callbacks callbacks = {.spawn = on_spawn, .abort = on_abort};
    pmi_server *server;
    uint32_t id;
    int status = pmi_server_new(&callbacks, NULL, &server);
    int failed = status || start(server, &(pmi_server_job){0}, &program, 1, &id) || pmi_server_run(server) || pmi_server_free(server);
    while (wait(&status) > 0)
        code = code ? code : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    return code ? code : failed;
}
